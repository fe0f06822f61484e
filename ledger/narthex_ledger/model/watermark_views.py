"""Watermarks of datasets, as the ledger stores them."""

from typing import Final

import attrs

WHOLE: Final = ""
"""The place of a dataset's own watermark."""


@attrs.frozen(kw_only=True)
class WatermarkView:
    """The progress of event time at one place of a dataset.

    Attributes:
        asset_id: The dataset's history feed.
        place: A partition of a source, whose greatest event time this is, or `WHOLE`: then it is
            the event time up to which the dataset's rows are complete.
        event_time_us: Microseconds.
        arrived_ms: When the log received the last row of the partition, milliseconds.
    """

    asset_id: int
    place: str
    event_time_us: int
    arrived_ms: int = 0
