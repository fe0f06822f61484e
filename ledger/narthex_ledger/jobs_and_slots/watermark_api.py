"""The part of the ledger for watermarks of datasets."""

from collections.abc import Sequence

import attrs

from narthex_ledger.db.statements import watermarks as on_watermarks
from narthex_ledger.model.watermark_views import WHOLE, WatermarkView
from narthex_ledger.session import LedgerDatabase


@attrs.frozen
class Watermarks:
    """Watermarks of datasets; each method is one transaction."""

    _db: LedgerDatabase

    def advance(self, views: Sequence[WatermarkView]) -> None:
        """Store watermarks; one that is smaller than the stored one, or of no job, is ignored."""
        if views:
            self._db.run("raise_watermarks", lambda c: on_watermarks.raise_watermarks(c, views))

    def all(self) -> tuple[WatermarkView, ...]:
        """Read the watermarks of all datasets, and those of the partitions of their sources."""
        return self._db.run("watermarks", on_watermarks.watermark_rows)

    def by_feed(self) -> dict[int, int]:
        """Read up to which event time each dataset is complete, by the asset of its history feed.

        Microseconds; a dataset of which that is not known is left out.
        """
        return {view.asset_id: view.event_time_us for view in self.all() if view.place == WHOLE}
