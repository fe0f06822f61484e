"""Reduce fact states to the newest state of each row, and render its public columns."""

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from narthex._formats.arrow import arrow_type
from narthex._ir import DataType, LogSpec
from narthex_stores.facts.tables import ArrowColumn, columns

_INSTANT = pa.timestamp("us", tz="UTC")


def newest(table: pa.Table) -> pa.Table:
    """Keep the state of the greatest version of each row_id, tombstones too.

    The result is ordered by row_id; the order of `table` and repetitions in it do not matter.
    """
    if table.num_rows == 0:
        return table
    order = table.sort_by([("row_id", "ascending"), ("version", "descending")])
    row_ids = order.column("row_id").combine_chunks()
    differs = pc.not_equal(row_ids.slice(1), row_ids.slice(0, len(row_ids) - 1))
    return order.filter(np.concatenate([[True], differs.to_numpy(zero_copy_only=False)]))


def alive(table: pa.Table) -> pa.Table:
    """Keep the newest state of each row_id, unless it is a tombstone.

    For a keyed log these are the rows, not yet the floors: a row is valid until the next instant
    of its key, which may be a tombstone.
    """
    states = newest(table)
    return states.filter(states.column("alive"))


def below(table: pa.Table, offsets: Mapping[int, int]) -> pa.Table:
    """Keep the rows read before these next offsets; a partition without one keeps none."""
    return table.filter(is_below(offsets))


def is_below(offsets: Mapping[int, int]) -> pc.Expression:
    """Return the condition that a row was read before these next offsets."""
    condition = pc.scalar(value=False)
    for partition, end in offsets.items():
        condition |= (pc.field("partition") == partition) & (pc.field("offset") < end)
    return condition


def public(log: LogSpec, table: pa.Table) -> pa.Table:
    """Render states under their public names: keys, values, then the event time.

    Instants are timestamps (microseconds, UTC) and days are dates. The validity intervals of
    contributions have no public columns.
    """
    shown = columns(attrs.evolve(log, values=log.inputs))
    named = {
        name.removeprefix("k_" if name.startswith("k_") else "v_"): _public(table.column(name), of)
        for name, of in shown.items()
    }
    instants = table.column("event_time").cast(_INSTANT)
    return pa.table([*named.values(), instants], names=[*named, log.time_field])


def _public(column: ArrowColumn, of: DataType) -> ArrowColumn:
    native = arrow_type(of)
    return column.cast(native) if pa.types.is_temporal(native) else column
