"""Lookups of many keys as of instants, by columns: the floors of a keyed dataset in its history.

The answers are those of `historical_lookup`, which applies the same states to an index. Here they
come from one as-of join. What this kernel does not answer, `is_answered` refuses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import polars as pl

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

ReadStates: TypeAlias = Callable[[Sequence[str]], pl.DataFrame]
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

_ALIVE, _ROW_ID, _VERSION, _AS_OF, _PLACE = "alive", "row_id", "version", "as_of", "place"


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
    names = [key_name(column) for column in spec.log.keys]
    states = _States.read(spec, read, take)
    asked = keys.select(names).with_columns(as_of.alias(_AS_OF)).with_row_index("question")
    found = (
        asked.drop_nulls(names)
        .sort(_AS_OF)
        .join_asof(
            states.ordered,
            left_on=_AS_OF,
            right_on=EVENT_TIME,
            by=names,
            coalesce=False,
            check_sortedness=False,
        )
        .select("question", EVENT_TIME, _PLACE, _is_visible(spec, states.newest).alias(FOUND))
    )
    rows = asked.select("question").join(found, on="question", how="left", maintain_order="left")
    return pl.DataFrame(
        [
            rows[FOUND].fill_null(value=False),
            rows[EVENT_TIME],
            *(states.values[value_name(column)].gather(rows[_PLACE]) for column in take),
        ]
    )


def _is_visible(spec: IndexSpec, newest: int | None) -> pl.Expr:
    """Whether the floor of a key is a row, and not too old to be seen."""
    is_row = pl.col(_ALIVE).fill_null(value=False)
    if spec.history_us is None or newest is None:
        return is_row
    oldest = pl.min_horizontal(pl.col(_AS_OF), pl.lit(newest - spec.disorder_us)) - spec.history_us
    return is_row & (pl.col(EVENT_TIME) >= oldest)


@attrs.frozen(kw_only=True)
class _States:
    """The rows and absences of a history.

    Attributes:
        ordered: Keys, event time, `alive` and the place in `values`, ascending by event time; of
            several at one instant of a key, the last is current.
        values: The wanted value columns.
        newest: The greatest event time of a row; None without one.
    """

    ordered: pl.DataFrame
    values: pl.DataFrame
    newest: int | None

    @classmethod
    def read(cls, spec: IndexSpec, read: ReadStates, take: Sequence[Column]) -> "_States":
        """Read the states; row ids and versions only if rows may have several states."""
        keys = {key_name(column): column for column in spec.log.keys}
        wanted = keys | {value_name(column): column for column in take}
        if not spec.correctable:
            states = _stored(read([EVENT_TIME, _ALIVE, *wanted]), wanted)
            ordered = _ordered(states, keys, [EVENT_TIME])
            if not _has_ties(ordered, keys):
                return cls._of(states, ordered)
        states = _newest(_stored(read([EVENT_TIME, _ALIVE, _ROW_ID, _VERSION, *wanted]), wanted))
        return cls._of(states, _ordered(states, keys, [EVENT_TIME, _VERSION]))

    @classmethod
    def _of(cls, states: pl.DataFrame, ordered: pl.DataFrame) -> "_States":
        newest = ordered.filter(_ALIVE)[EVENT_TIME].max()
        return cls(
            ordered=ordered,
            values=states,
            newest=newest if isinstance(newest, int) else None,
        )


def _stored(states: pl.DataFrame, wanted: Mapping[str, Column]) -> pl.DataFrame:
    return states.with_columns(
        stored_series(states[name], column.type) for name, column in wanted.items()
    )


def _ordered(states: pl.DataFrame, keys: Iterable[str], order: Sequence[str]) -> pl.DataFrame:
    """Sort the states of rows and absences, which are not retracted."""
    placed = states.select(*keys, _ALIVE, *order).with_row_index(_PLACE)
    return placed.filter(pl.col(EVENT_TIME) < TOMBSTONE_TIME).sort(order)


def _has_ties(ordered: pl.DataFrame, keys: Iterable[str]) -> bool:
    """Return whether two states are at one instant of a key."""
    time = pl.col(EVENT_TIME)
    beside = ordered.filter((time == time.shift(1)) | (time == time.shift(-1)))
    return bool(beside.select(*keys, EVENT_TIME).is_duplicated().any())


def _newest(states: pl.DataFrame) -> pl.DataFrame:
    """Keep the state of the greatest version of each row."""
    is_superseded = pl.col(_ROW_ID).is_duplicated()
    several = states.filter(is_superseded).sort(_VERSION)
    return pl.concat(
        [states.filter(~is_superseded), several.unique(_ROW_ID, keep="last", maintain_order=True)]
    )
