"""The progress of one run of an offline query."""

from collections.abc import Callable

import attrs

from narthex._base import Json


@attrs.define
class RunProgress:
    """Reports what a run does, with the share of the query that it has done.

    Attributes:
        rows: The number of rows of the query.
        send: Receives the reports.
        share: The share that is done, from 0 to 1.
    """

    rows: int
    send: Callable[[dict[str, Json]], None]
    share: float = 0.0

    def report(self, **doing: Json) -> None:
        """Report what the run does now."""
        self.send({"rows": self.rows, "share": round(self.share, 4), **doing})

    def reach(self, done: int, total: int) -> None:
        """Report that a number of equal parts is done; of no parts, nothing is."""
        self.share = done / total if total else 0.0
        self.report()
