"""The rows of a run, by seed: the same ones in the same order, however fast they are sent."""

import datetime as dt
from collections.abc import Iterator

import attrs
import numpy as np

from narthex._base.times import to_micros
from narthex._ir.facts import Cell, Fact, RowId, Version, position

BEGIN = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
STEP = dt.timedelta(seconds=20)
"""How far the event time moves from payment to payment."""
DISORDER_S = 3600
LATE, BEYOND, CHANGED, REFUSED = 0.01, 0.001, 0.03, 0.05
CARDS, MERCHANTS = 40, 25
CATEGORIES = ("food", "travel", "fuel", "books", "games")
PROBE = "probe"
FIRST_PROBE = 1_000_000_000


@attrs.frozen(kw_only=True)
class Payment:
    """A payment; its number is its identity for the verdict alone."""

    number: int
    card: str
    merchant: str
    cents: int
    at: dt.datetime

    def plain(self) -> dict[str, object]:
        return {
            "payment": self.number,
            "card": self.card,
            "merchant": self.merchant,
            "cents": self.cents,
            "paid_at": self.at.isoformat(),
        }

    def fact(self) -> Fact:
        values: tuple[Cell, ...] = (self.number, self.card, self.merchant, self.cents)
        return Fact(
            row_id=RowId(position("produced", 0, self.number)),
            version=Version(b"\x00"),
            event_time=to_micros(self.at),
            key=(),
            values=values,
        )


@attrs.frozen(kw_only=True)
class Merchant:
    """The state of a merchant from an instant on; no two changes of one have the same."""

    number: int
    merchant: str
    category: str
    risk: int
    since: dt.datetime

    def plain(self) -> dict[str, object]:
        return {
            "merchant": self.merchant,
            "category": self.category,
            "risk": self.risk,
            "since": self.since.isoformat(),
        }

    def fact(self) -> Fact:
        return Fact(
            row_id=RowId(f"{self.merchant} {self.since.isoformat()}".encode()),
            version=Version(self.number.to_bytes(8, "big")),
            event_time=to_micros(self.since),
            key=(self.merchant,),
            values=(self.category, self.risk),
        )


Row = Payment | Merchant


def probe(number: int) -> Payment:
    """Return a payment of the card that is watched; all of them at nearly one instant."""
    at = BEGIN + dt.timedelta(microseconds=number)
    return Payment(number=FIRST_PROBE + number, card=PROBE, merchant="m0", cents=1, at=at)


class Rows:
    """Draws rows without end: merchants as they are at first, then payments and changes."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._number = 0
        self.now = BEGIN

    def merchants(self) -> list[Merchant]:
        """Return all merchants as they are before the first payment."""
        return [self._merchant(f"m{n}", BEGIN - dt.timedelta(hours=1)) for n in range(MERCHANTS)]

    def __iter__(self) -> Iterator[Row]:
        while True:
            self.now += STEP
            if self._chance.random() < CHANGED:
                # A third of the changes are sent up to twenty minutes after their event time.
                late = self._chance.random() < 1 / 3
                ago = dt.timedelta(seconds=float(self._chance.integers(1, 1200)) if late else 0.0)
                number = self._chance.integers(MERCHANTS)
                yield self._merchant(f"m{number}", self.now - ago)
            else:
                yield self._payment()

    def _payment(self) -> Payment:
        draw = self._chance.random()
        late_s = 0.0
        if draw < BEYOND:
            late_s = float(self._chance.integers(DISORDER_S, 6 * DISORDER_S))
        elif draw < BEYOND + LATE:
            late_s = float(self._chance.integers(1, DISORDER_S))
        is_refused = self._chance.random() < REFUSED
        return Payment(
            number=self._next(),
            card=f"c{self._chance.integers(CARDS)}",
            # Some merchants are never sent.
            merchant=f"m{self._chance.integers(MERCHANTS + 2)}",
            cents=0 if is_refused else int(self._chance.integers(1, 50_000)),
            at=self.now - dt.timedelta(seconds=late_s),
        )

    def _merchant(self, name: str, since: dt.datetime) -> Merchant:
        number = self._next()
        return Merchant(
            number=number,
            merchant=name,
            category=CATEGORIES[self._chance.integers(len(CATEGORIES))],
            risk=int(self._chance.integers(100)),
            since=since + dt.timedelta(microseconds=number),
        )

    def _next(self) -> int:
        self._number += 1
        return self._number
