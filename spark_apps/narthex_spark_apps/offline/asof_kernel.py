"""Lookups of many keys as of instants, by columns: the floors of a keyed dataset in its history.

The answers are those of `historical_lookup`, which applies the same states to an index. Here they
come from one as-of join. What this kernel does not answer, `is_answered` refuses. `floors` joins in
this process; `asof_job` has executors of Spark do the same, bucket by bucket.
"""

from collections.abc import Callable, Iterable, Sequence
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

KEYS: Final = (
    types.Int,
    types.Str,
    types.Bool,
    types.Bytes,
    types.Datetime,
    types.Date,
    types.Decimal,
)
"""The types of keys whose equal cells are equal elements of a series."""

AS_OF: Final = "as_of"
QUESTION: Final = "question"
"""The place of a key among those that are looked up."""

ROW_ID, VERSION = "row_id", "version"
_ALIVE, _PLACE = "alive", "place"


class MissingVersionsError(Exception):
    """Two states are at one instant of a key, and were read without the versions to order them."""


def is_answered(plan: DatasetPlan, take: Sequence[Column]) -> bool:
    """Return whether `floors` answers lookups of a dataset that take these value columns."""
    log = plan.log
    return (
        log.shape is LogShape.KEYED
        and not log.decays
        and all(isinstance(base_type(inner(column.type)), KEYS) for column in log.keys)
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

    def states(*, versioned: bool) -> States:
        return States.of(spec, read(state_columns(spec, take, versioned=versioned)))

    try:
        known = states(versioned=spec.correctable)
    except MissingVersionsError:
        known = states(versioned=True)
    found = known.floors(questions(spec, keys, as_of), take, newest=known.newest)
    return in_order(found, keys.height, take)


def state_columns(spec: IndexSpec, take: Sequence[Column], *, versioned: bool) -> list[str]:
    """Return the columns of fact states that `States.of` needs.

    Row ids and versions are needed if rows can be retracted, or two states are at one instant of a
    key (`MissingVersionsError`).
    """
    return [
        EVENT_TIME,
        _ALIVE,
        *([ROW_ID, VERSION] if versioned else []),
        *map(key_name, spec.log.keys),
        *map(value_name, take),
    ]


def questions(spec: IndexSpec, keys: pl.DataFrame, as_of: pl.Series) -> pl.DataFrame:
    """Return the keys without nulls, with their instants and places: `AS_OF` and `QUESTION`."""
    names = [key_name(column) for column in spec.log.keys]
    asked = keys.select(names).with_columns(as_of.alias(AS_OF)).with_row_index(QUESTION)
    return asked.drop_nulls(names)


def in_order(found: pl.DataFrame, count: int, take: Sequence[Column]) -> pl.DataFrame:
    """Return the rows that `States.floors` found for `count` keys, in the order of these keys."""
    places = pl.DataFrame({QUESTION: pl.int_range(count, dtype=pl.UInt32, eager=True)})
    rows = places.join(
        found.with_columns(pl.lit(value=True).alias(FOUND)),
        on=QUESTION,
        how="left",
        maintain_order="left",
    )
    return pl.DataFrame(
        [
            rows[FOUND].fill_null(value=False),
            rows[EVENT_TIME],
            *(stored_series(rows[value_name(column)], column.type) for column in take),
        ]
    )


@attrs.frozen(kw_only=True)
class States:
    """The rows and absences of a history, or of all its states with some of the keys.

    Attributes:
        ordered: Keys, event time, `alive` and the place in `values`, ascending by event time; of
            several at one instant of a key, the last is current.
        values: The value columns, as they are stored.
    """

    spec: IndexSpec
    ordered: pl.DataFrame
    values: pl.DataFrame

    @classmethod
    def of(cls, spec: IndexSpec, states: pl.DataFrame) -> "States":
        """Reduce fact states to the newest one of each row.

        Args:
            spec: The index of the dataset.
            states: The columns `state_columns`, in any order of rows.

        Raises:
            MissingVersionsError: Versions are needed, and not among the columns.
        """
        if VERSION in states.columns:
            newest = newest_states(states)
            ordered = _ordered(spec, newest, [EVENT_TIME, VERSION])
            return cls(spec=spec, ordered=ordered, values=newest)
        ordered = _ordered(spec, states, [EVENT_TIME])
        if _has_ties(ordered, map(key_name, spec.log.keys)):
            raise MissingVersionsError
        return cls(spec=spec, ordered=ordered, values=states)

    @property
    def newest(self) -> int | None:
        """The greatest event time of a row; None without one, or if no lookup depends on it."""
        if self.spec.history_us is None:
            return None
        newest = self.ordered.filter(_ALIVE)[EVENT_TIME].max()
        return newest if isinstance(newest, int) else None

    def floors(
        self, asked: pl.DataFrame, take: Sequence[Column], *, newest: int | None
    ) -> pl.DataFrame:
        """Return `QUESTION`, the event time and the values, as they are stored, of the rows found.

        Args:
            asked: `questions`.
            take: The value columns that are wanted.
            newest: The greatest event time of a row of the dataset; None without one.
        """
        found = (
            asked.sort(AS_OF)
            .join_asof(
                self.ordered,
                left_on=AS_OF,
                right_on=EVENT_TIME,
                by=[key_name(column) for column in self.spec.log.keys],
                coalesce=False,
                check_sortedness=False,
            )
            .filter(_is_visible(self.spec, newest))
        )
        return pl.DataFrame(
            [
                found[QUESTION],
                found[EVENT_TIME],
                *(self.values[value_name(column)].gather(found[_PLACE]) for column in take),
            ]
        )


def _is_visible(spec: IndexSpec, newest: int | None) -> pl.Expr:
    """Whether the floor of a key is a row, and not too old to be seen."""
    is_row = pl.col(_ALIVE).fill_null(value=False)
    if spec.history_us is None or newest is None:
        return is_row
    oldest = pl.min_horizontal(pl.col(AS_OF), pl.lit(newest - spec.disorder_us)) - spec.history_us
    return is_row & (pl.col(EVENT_TIME) >= oldest)


def stored_keys(spec: IndexSpec, states: pl.DataFrame) -> list[pl.Series]:
    """Return the keys of fact states in the encoding of the keys that are looked up."""
    return [stored_series(states[key_name(one)], one.type) for one in spec.log.keys]


def _ordered(spec: IndexSpec, states: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """Sort the states of rows and absences, which are not retracted."""
    placed = states.select(_ALIVE, *order).with_columns(stored_keys(spec, states))
    return placed.with_row_index(_PLACE).filter(pl.col(EVENT_TIME) < TOMBSTONE_TIME).sort(order)


def _has_ties(ordered: pl.DataFrame, keys: Iterable[str]) -> bool:
    """Return whether two states are at one instant of a key."""
    time = pl.col(EVENT_TIME)
    beside = ordered.filter((time == time.shift(1)) | (time == time.shift(-1)))
    return bool(beside.select(*keys, EVENT_TIME).is_duplicated().any())


def newest_states(states: pl.DataFrame) -> pl.DataFrame:
    """Keep the state of the greatest version of each row."""
    is_superseded = pl.col(ROW_ID).is_duplicated()
    several = states.filter(is_superseded).sort(VERSION)
    return pl.concat(
        [states.filter(~is_superseded), several.unique(ROW_ID, keep="last", maintain_order=True)]
    )
