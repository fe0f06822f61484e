"""Lookups of many keys as of instants, by columns: the floors of a keyed dataset in its history.

The answers are those of `historical_lookup`, which applies the same states to an index. Here they
come from one as-of join. What this kernel does not answer, `is_answered` refuses.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import polars as pl
import pyarrow as pa

from narthex._columnar_query import (
    EVENT_TIME,
    FOUND,
    is_stored_alike,
    key_name,
    stored_series,
    value_name,
)
from narthex._ir import (
    TOMBSTONE_TIME,
    Column,
    DatasetPlan,
    IndexSpec,
    LogShape,
    base_type,
    inner,
    types,
)

ReadStates: TypeAlias = Callable[[Sequence[str]], pa.Table]
"""Reads columns of the fact states of a history below some offsets, in any order."""

_KEYS: Final = (
    types.Int,
    types.Str,
    types.Bool,
    types.Bytes,
    types.Datetime,
    types.Date,
    types.Decimal,
)
"""The types of keys whose equal cells are equal elements of a series."""

_ALIVE, _ROW_ID, _VERSION, _AS_OF, _ROW = "alive", "row_id", "version", "as_of", "row"


def is_answered(plan: DatasetPlan, take: Sequence[Column]) -> bool:
    """Return whether `floors` answers lookups of a dataset that take these value columns."""
    log = plan.log
    return (
        log.shape is LogShape.KEYED
        and not log.decays
        and all(isinstance(base_type(inner(column.type)), _KEYS) for column in log.keys)
        and all(is_stored_alike(column.type) for column in (*log.keys, *take))
    )


def floors(
    plan: DatasetPlan,
    read: ReadStates,
    *,
    keys: pl.DataFrame,
    as_of: pl.Series,
    take: Sequence[Column],
) -> pl.DataFrame:
    """Return the row of each key at its instant, as `narthex._columnar_query.ColumnarLookup` does.

    Args:
        plan: The dataset; `is_answered` accepts it.
        read: Reads its history.
        keys: A column `key_name` for each key column; a key with a null finds no row.
        as_of: The instant of each key, microseconds.
        take: The value columns that are wanted.
    """
    spec = plan.index
    rows = _rows(spec, read, take)
    newest = rows.filter(_ALIVE)[EVENT_TIME].max()
    names = [key_name(column) for column in spec.log.keys]
    asked = keys.select(names).with_columns(as_of.alias(_AS_OF)).with_row_index(_ROW)
    joined = (
        asked.drop_nulls(names)
        .sort(_AS_OF)
        .join_asof(
            rows,
            left_on=_AS_OF,
            right_on=EVENT_TIME,
            by=names,
            coalesce=False,
            check_sortedness=False,
        )
    )
    visible = joined.with_columns(_is_visible(spec, newest).alias(FOUND))
    wanted = [FOUND, EVENT_TIME, *map(value_name, take)]
    return (
        asked.select(_ROW)
        .join(visible.select(_ROW, *wanted), on=_ROW, how="left", maintain_order="left")
        .select(pl.col(FOUND).fill_null(value=False), *wanted[1:])
    )


def _is_visible(spec: IndexSpec, newest: object) -> pl.Expr:
    """Whether the floor of a key is a row, and not too old to be seen."""
    is_row = pl.col(_ALIVE).fill_null(value=False)
    if spec.history_us is None:
        return is_row
    oldest = pl.col(_AS_OF)
    if isinstance(newest, int):
        oldest = pl.min_horizontal(oldest, pl.lit(newest - spec.disorder_us))
    return is_row & (pl.col(EVENT_TIME) >= oldest - spec.history_us)


def _rows(spec: IndexSpec, read: ReadStates, take: Sequence[Column]) -> pl.DataFrame:
    """Read the rows and absences of a history, ascending by event time.

    Of several at one instant of a key, the last is current.
    """
    wanted = {key_name(column): column for column in spec.log.keys}
    wanted |= {value_name(column): column for column in take}
    place = [*(key_name(column) for column in spec.log.keys), EVENT_TIME]
    if not spec.correctable:
        states = _frame(read([EVENT_TIME, _ALIVE, *wanted]), wanted)
        if not states.select(place).is_duplicated().any():
            return states.sort(EVENT_TIME)
    states = _newest(_frame(read([EVENT_TIME, _ALIVE, _ROW_ID, _VERSION, *wanted]), wanted))
    return states.filter(pl.col(EVENT_TIME) < TOMBSTONE_TIME).sort(EVENT_TIME, _VERSION)


def _frame(states: pa.Table, wanted: dict[str, Column]) -> pl.DataFrame:
    frame = pl.DataFrame(pl.from_arrow(states))
    return frame.with_columns(
        stored_series(frame[name], column.type) for name, column in wanted.items()
    )


def _newest(states: pl.DataFrame) -> pl.DataFrame:
    """Keep the state of the greatest version of each row."""
    is_superseded = pl.col(_ROW_ID).is_duplicated()
    several = states.filter(is_superseded).sort(_VERSION)
    return pl.concat(
        [states.filter(~is_superseded), several.unique(_ROW_ID, keep="last", maintain_order=True)]
    )
