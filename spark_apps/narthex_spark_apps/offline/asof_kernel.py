"""The floors of a keyed dataset: the newest row of each key at an instant, by one as-of join.

The answers are those of `historical_lookup`, which applies the same states to an index.
"""

from collections.abc import Iterable, Sequence

import attrs
import polars as pl

from narthex._columnar_query import EVENT_TIME, is_stored_alike, key_name, value_name
from narthex._ir import TOMBSTONE_TIME, Column, DatasetPlan, IndexSpec, LogShape, base_type, inner
from narthex_spark_apps.offline.kernel import (
    ALIVE,
    AS_OF,
    KEYS,
    QUESTION,
    ROW_ID,
    VERSION,
    MissingVersionsError,
    newest_states,
    stored_keys,
)

_PLACE = "place"


def is_answered(plan: DatasetPlan, take: Sequence[Column]) -> bool:
    """Return whether `KeyedStates` answers lookups of a dataset that take these value columns."""
    log = plan.log
    return (
        log.shape is LogShape.KEYED
        and not log.decays
        and all(isinstance(base_type(inner(column.type)), KEYS) for column in log.keys)
        and all(is_stored_alike(column.type) for column in (*log.keys, *take))
    )


@attrs.frozen(kw_only=True)
class KeyedStates:
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
    def columns(cls, spec: IndexSpec, take: Sequence[Column], *, versioned: bool) -> list[str]:
        """Return the columns of fact states that are needed; see `kernel.Kernel`."""
        return [
            EVENT_TIME,
            ALIVE,
            *([ROW_ID, VERSION] if versioned else []),
            *map(key_name, spec.log.keys),
            *map(value_name, take),
        ]

    @classmethod
    def of(cls, spec: IndexSpec, states: pl.DataFrame) -> "KeyedStates":
        """Reduce fact states to the newest one of each row.

        Args:
            spec: The index of the dataset.
            states: The columns `columns`, in any order of rows.

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
        newest = self.ordered.filter(ALIVE)[EVENT_TIME].max()
        return newest if isinstance(newest, int) else None

    def answers(
        self, asked: pl.DataFrame, take: Sequence[Column], *, newest: int | None
    ) -> pl.DataFrame:
        """Return `QUESTION`, the event time and the values, as they are stored, of the rows found.

        Args:
            asked: `kernel.AskedKeys.questions`.
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
    is_row = pl.col(ALIVE).fill_null(value=False)
    if spec.history_us is None or newest is None:
        return is_row
    oldest = pl.min_horizontal(pl.col(AS_OF), pl.lit(newest - spec.disorder_us)) - spec.history_us
    return is_row & (pl.col(EVENT_TIME) >= oldest)


def _ordered(spec: IndexSpec, states: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """Sort the states of rows and absences, which are not retracted."""
    placed = states.select(ALIVE, *order).with_columns(stored_keys(spec, states))
    return placed.with_row_index(_PLACE).filter(pl.col(EVENT_TIME) < TOMBSTONE_TIME).sort(order)


def _has_ties(ordered: pl.DataFrame, keys: Iterable[str]) -> bool:
    """Return whether two states are at one instant of a key."""
    time = pl.col(EVENT_TIME)
    beside = ordered.filter((time == time.shift(1)) | (time == time.shift(-1)))
    return bool(beside.select(*keys, EVENT_TIME).is_duplicated().any())
