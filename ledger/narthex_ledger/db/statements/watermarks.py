"""Statements on the watermarks of datasets, which only grow."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import BIG, JOB, TEXT, WATERMARK
from narthex_ledger.model.watermark_views import WatermarkView

_GIVEN = (
    sa.func.unnest(
        sa.cast(sa.bindparam("assets"), ARRAY(BIG)),
        sa.cast(sa.bindparam("places"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("times"), ARRAY(BIG)),
        sa.cast(sa.bindparam("arrivals"), ARRAY(BIG)),
    )
    .table_valued(
        sa.column("asset_id", BIG),
        sa.column("place", TEXT),
        sa.column("event_time_us", BIG),
        sa.column("arrived_ms", BIG),
        name="given",
    )
    .render_derived()
)


def raise_watermarks(connection: Connection, views: Sequence[WatermarkView]) -> None:
    """Store watermarks of feeds that still exist; a smaller value changes nothing."""
    # In one order, so that two servers do not wait for each other.
    ordered = sorted(views, key=lambda view: (view.asset_id, view.place))
    columns = (_GIVEN.c.asset_id, _GIVEN.c.place, _GIVEN.c.event_time_us, _GIVEN.c.arrived_ms)
    existing = (
        sa.select(*columns)
        .join(JOB, JOB.c.asset_id == _GIVEN.c.asset_id)
        .order_by(_GIVEN.c.asset_id, _GIVEN.c.place)
    )
    row = insert(WATERMARK).from_select([column.name for column in columns], existing)
    greatest = {
        name: sa.func.greatest(WATERMARK.c[name], row.excluded[name])
        for name in ("event_time_us", "arrived_ms")
    }
    connection.execute(
        row.on_conflict_do_update(index_elements=["asset_id", "place"], set_=greatest),
        {
            "assets": [view.asset_id for view in ordered],
            "places": [view.place for view in ordered],
            "times": [view.event_time_us for view in ordered],
            "arrivals": [view.arrived_ms for view in ordered],
        },
    )


def watermark_rows(connection: Connection) -> tuple[WatermarkView, ...]:
    """Read all watermarks, by feed and place."""
    statement = sa.select(WATERMARK).order_by(WATERMARK.c.asset_id, WATERMARK.c.place)
    return rows_of(WatermarkView, connection.execute(statement))
