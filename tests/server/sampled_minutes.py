"""Samples that servers take of a house, as if minutes had passed."""

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from narthex_ledger import Ledger, Signer
from narthex_server.operations.metric_sampling import MetricSampling
from narthex_server.operations.watermarks import Ends
from narthex_stores import TransientError

if TYPE_CHECKING:
    from tests.server.conftest import House

MINUTE = dt.timedelta(minutes=1)


@attrs.define
class Minutes:
    """The loops of servers whose ledger's clock is half a minute into some minute.

    Attributes:
        rows: How many rows the log of each dataset has; None while the broker does not answer.
        fifth: The middle of minute 5, which is the one in which the test began.
    """

    house: "House"
    fifth: dt.datetime = attrs.field(
        factory=lambda: dt.datetime.now(dt.UTC).replace(second=30, microsecond=0)
    )
    rows: int | None = 0
    opened: list[Ledger] = attrs.field(factory=list)

    def ends(self, topics: Iterable[str]) -> Ends:
        if self.rows is None:
            raise TransientError("no broker")
        return {topic: {0: self.rows} for topic in topics if "quarantine" not in topic}

    def services(self, minute: float, **settings: Any) -> Any:
        found = self.house.services.settings
        ledger = Ledger(
            found.ledger_dsn,
            clock_shift=self.fifth + (minute - 5) * MINUTE - dt.datetime.now(dt.UTC),
            signer=Signer.load(found.signing_key),
        )
        self.opened.append(ledger)
        return attrs.evolve(
            self.house.services, ledger=ledger, settings=attrs.evolve(found, **settings)
        )

    def sample(self, minute: float, rows: int | None, **settings: Any) -> None:
        """Sample in a minute as a server that has just started."""
        self.rows = rows
        MetricSampling(self.services(minute, **settings), self.ends).sample()
