"""Aggregates of many keys over windows as of instants, by columns, from the rows in a history.

The answers are those of `historical_lookup`, which folds the rows of an index. Here the rows are
sorted by key and instant, so that a window is a range of places; sums of integers are differences
of prefix sums, and everything else is folded level by level. Floats are never subtracted.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from narthex._aggregates import (
    ExactAverage,
    ExactSum,
    Extreme,
    FloatAverage,
    FloatSum,
    RowCount,
    algebra,
)
from narthex._columnar_query import (
    EVENT_TIME,
    is_stored_alike,
    key_name,
    series_of,
    stored_series,
    value_name,
)
from narthex._ir import (
    BEGINNING,
    TOMBSTONE_TIME,
    Cell,
    Column,
    Continuous,
    DatasetPlan,
    IndexSpec,
    LogShape,
    TypedAggregate,
    base_type,
    inner,
    types,
)
from narthex_spark_apps.offline.kernel import (
    ALIVE,
    AS_OF,
    KEYS,
    QUESTION,
    ROW_ID,
    VERSION,
    InexactError,
    MissingVersionsError,
    newest_states,
    stored_keys,
)

_Places: TypeAlias = npt.NDArray[np.int64]
_Floats: TypeAlias = npt.NDArray[np.float64]
_State: TypeAlias = tuple[npt.NDArray[np.float64 | np.int64], ...]
"""The states of many ranges: an array for each part of a state."""

_KEY = "key"
_BEGINNING: Final = BEGINNING + 1
"""Before all rows; the instant before it is one, too."""
_EXACT: Final = 1 << 53
"""Integers up to this one are floats without rounding."""
_GREATEST_FLOAT: Final = 1e150


def is_answered(plan: DatasetPlan, take: Sequence[Column]) -> bool:
    """Return whether `WindowRows` answers lookups of a dataset that take these value columns."""
    log = plan.log
    return (
        log.shape is LogShape.CONTRIBUTIONS
        and not log.lives
        and bool(plan.aggregates)
        and all(isinstance(base_type(inner(column.type)), KEYS) for column in log.keys)
        and all(is_stored_alike(column.type) for column in log.keys)
        and all(isinstance(one.spec.window, Continuous) for one in plan.aggregates)
        and all(_is_vectorised(one) for one in _wanted(plan.index, take))
    )


def _wanted(spec: IndexSpec, take: Sequence[Column]) -> list[TypedAggregate]:
    by_name = {one.spec.into: one for one in spec.aggregates}
    return [by_name[column.name] for column in take]


def _is_vectorised(aggregate: TypedAggregate) -> bool:
    match algebra(aggregate):
        case Extreme():
            return not isinstance(base_type(inner(aggregate.output)), types.Decimal)
        case RowCount() | ExactSum() | FloatSum() | ExactAverage() | FloatAverage():
            return True
        case _:
            return False


@attrs.frozen(kw_only=True)
class WindowRows:
    """The rows of a history, or all those with some of the keys.

    Attributes:
        rows: Keys, event time and inputs of aggregates of each row.
    """

    spec: IndexSpec
    rows: pl.DataFrame

    @classmethod
    def columns(cls, spec: IndexSpec, take: Sequence[Column], *, versioned: bool) -> list[str]:
        """Return the columns of fact states that are needed; see `kernel.Kernel`."""
        inputs = {one.spec.of for one in _wanted(spec, take)}
        values = [value_name(column) for column in spec.log.values if column.name in inputs]
        versions = [VERSION] if versioned else []
        return [EVENT_TIME, ALIVE, ROW_ID, *versions, *map(key_name, spec.log.keys), *values]

    @classmethod
    def of(cls, spec: IndexSpec, states: pl.DataFrame) -> "WindowRows":
        """Reduce fact states to the newest one of each row.

        Args:
            spec: The index of the dataset.
            states: The columns `columns`, in any order of rows.

        Raises:
            MissingVersionsError: A row has two states, and versions are not among the columns.
        """
        if VERSION in states.columns:
            states = newest_states(states).drop(VERSION)
        elif states[ROW_ID].is_duplicated().any():
            raise MissingVersionsError
        rows = states.filter(ALIVE, pl.col(EVENT_TIME) < TOMBSTONE_TIME).drop(ROW_ID, ALIVE)
        return cls(spec=spec, rows=rows.with_columns(stored_keys(spec, rows)))

    @property
    def newest(self) -> int | None:
        """The greatest event time of a row; None without one, or if no lookup depends on it."""
        newest = None if self.spec.history_us is None else self.rows[EVENT_TIME].max()
        return newest if isinstance(newest, int) else None

    def answers(
        self, asked: pl.DataFrame, take: Sequence[Column], *, newest: int | None
    ) -> pl.DataFrame:
        """Return `QUESTION`, the event time of the newest row that is seen, and the aggregates.

        Args:
            asked: `kernel.AskedKeys.questions`.
            take: The aggregates that are wanted.
            newest: The greatest event time of a row of the dataset; None without one.

        Raises:
            InexactError: A float is too great, infinite or not a number.
        """
        instants = asked[AS_OF].to_numpy()
        ranges = _Ranges.of(self.spec, self.rows, asked)
        oldest = _oldest_visible(self.spec, instants, newest)
        first, last = ranges.count_until(oldest - 1), ranges.count_until(instants)
        found = first < last
        columns = {QUESTION: asked[QUESTION], EVENT_TIME: ranges.times_before(last)}
        begins: dict[int | None, _Places] = {None: first}
        for aggregate, column in zip(_wanted(self.spec, take), take, strict=True):
            duration = _duration(aggregate)
            if duration is not None and duration not in begins:
                begins[duration] = ranges.count_until(np.maximum(instants - duration, oldest) - 1)
            columns[value_name(column)] = ranges.aggregate(
                aggregate, column, begins[duration], last
            )
        return pl.DataFrame(columns).filter(pl.Series(found, dtype=pl.Boolean))


def _duration(aggregate: TypedAggregate) -> int | None:
    window = aggregate.spec.window
    if not isinstance(window, Continuous):
        raise TypeError(f"{window!r} is not answered")
    return window.duration


def _oldest_visible(spec: IndexSpec, instants: _Places, newest: int | None) -> _Places:
    """Return the event time of each question before which it sees no row."""
    if spec.history_us is None or newest is None:
        return np.full_like(instants, _BEGINNING)
    return np.minimum(instants, newest - spec.disorder_us) - spec.history_us


@attrs.frozen(kw_only=True)
class _Ranges:
    """The rows of the keys that are asked for, ascending by key and instant.

    Attributes:
        times: The event time of each row.
        values: The inputs of aggregates.
        begins: For each question, the place of the first row of its key.
        ends: The place after the last one.
    """

    spec: IndexSpec
    times: _Places
    values: pl.DataFrame
    begins: _Places
    ends: _Places

    @classmethod
    def of(cls, spec: IndexSpec, rows: pl.DataFrame, asked: pl.DataFrame) -> "_Ranges":
        names = [key_name(column) for column in spec.log.keys]
        distinct = asked.select(names).unique().with_row_index(_KEY)
        ordered = rows.join(distinct, on=names, how="inner").sort(_KEY, EVENT_TIME)
        numbers = asked.join(distinct, on=names, how="left", maintain_order="left")[_KEY]
        keys, wanted = ordered[_KEY].to_numpy(), numbers.to_numpy()
        return cls(
            spec=spec,
            times=ordered[EVENT_TIME].to_numpy(),
            values=ordered,
            begins=np.searchsorted(keys, wanted, side="left"),
            ends=np.searchsorted(keys, wanted, side="right"),
        )

    def times_before(self, places: _Places) -> pl.Series:
        """Return the event time of the row before each place; 0 if there is none."""
        if not len(self.times):
            return pl.Series(np.zeros_like(places))
        return pl.Series(self.times[np.maximum(places - 1, 0)])

    def count_until(self, instants: _Places) -> _Places:
        """Return the place after the last row of each key at or before its instant."""
        low, high = self.begins.copy(), self.ends.copy()
        while (is_open := low < high).any():
            middle = (low + high) >> 1
            is_before = is_open & (self.times[np.minimum(middle, len(self.times) - 1)] <= instants)
            low = np.where(is_before, middle + 1, low)
            high = np.where(is_open & ~is_before, middle, high)
        return low

    def aggregate(
        self, aggregate: TypedAggregate, column: Column, first: _Places, last: _Places
    ) -> pl.Series:
        """Return an aggregate of the rows between places, as elements of a type."""
        of = aggregate.spec.of
        values = None if of is None else self._values(of)
        meaning = algebra(aggregate)
        match meaning:
            case RowCount(dropnull=dropnull) if dropnull and values is not None:
                found = pl.Series(_counts(values, first, last))
            case RowCount():
                found = pl.Series(last - first)
            case ExactSum(least=least, greatest=greatest) if values is not None:
                found = _sums(values, first, last).clip(least, greatest)
            case FloatSum() if values is not None:
                found = pl.Series(_float_sums(values, first, last))
            case ExactAverage(unit=unit, default=default) if values is not None:
                counts, sums = _counts(values, first, last), _sums(values, first, last)
                found = _or(_quotients(sums, counts, unit), counts, default)
            case FloatAverage(default=default) if values is not None:
                counts = _counts(values, first, last)
                means = _float_sums(values, first, last) / np.maximum(counts, 1)
                found = _or(pl.Series(means), counts, default)
            case Extreme(choose=choose, default=default) if values is not None:
                counts = _counts(values, first, last)
                least = choose(0, 1) == 0
                found = _or(_extremes(values, first, last, is_least=least), counts, default)
            case _:
                raise TypeError(f"{aggregate.spec!r} is not answered")
        dtype = series_of("", [], column.type).dtype
        return found.cast(dtype).alias(value_name(column))

    def _values(self, of: str) -> pl.Series:
        (column,) = (one for one in self.spec.log.values if one.name == of)
        return stored_series(self.values[value_name(column)], column.type)


def _counts(values: pl.Series, first: _Places, last: _Places) -> _Places:
    """Return the number of values in each range that are not null."""
    until = np.concatenate([[0], np.cumsum(values.is_not_null().to_numpy())])
    counts: _Places = until[last] - until[first]
    return counts


def _sums(values: pl.Series, first: _Places, last: _Places) -> pl.Series:
    """Return the exact sum of the integers of each range."""
    zero = pl.Series([0], dtype=pl.Int128)
    until = pl.concat([zero, values.cast(pl.Int128).fill_null(0).cum_sum().rename("")])
    return until.gather(last) - until.gather(first)


def _quotients(sums: pl.Series, counts: _Places, unit: int) -> pl.Series:
    """Return sum / (count * unit), rounded once; of no values, anything."""
    divisors = np.maximum(counts, 1) * float(unit)
    quotients = sums.cast(pl.Float64).to_numpy() / divisors
    rounded = (sums.abs() > _EXACT).to_numpy() | (divisors > _EXACT)
    if rounded.any():
        places = np.flatnonzero(rounded & (counts > 0))
        quotients = quotients.copy()
        quotients[places] = [
            total / (int(count) * unit)
            for total, count in zip(sums.gather(places), counts[places], strict=True)
        ]
    return pl.Series(quotients)


def _or(found: pl.Series, counts: _Places, default: Cell) -> pl.Series:
    """Return the default for ranges without values."""
    nothing = pl.lit(default, dtype=found.dtype)
    return pl.select(pl.when(pl.Series(counts > 0)).then(found).otherwise(nothing)).to_series()


def _float_sums(values: pl.Series, first: _Places, last: _Places) -> _Floats:
    """Return the compensated sum of the floats of each range."""
    floats = values.fill_null(0.0).to_numpy()
    if not (np.abs(floats) < _GREATEST_FLOAT).all():
        raise InexactError(f"`{values.name}` has floats that are great, infinite or not a number")
    high, low = _fold((floats, np.zeros_like(floats)), (0.0, 0.0), _compensated, first, last)
    return np.asarray(high + low, np.float64)


def _compensated(left: _State, right: _State) -> _State:
    """Add sums of two floats each, of which the second is the rounding error of the first."""
    high = left[0] + right[0]
    part = high - left[0]
    low = (left[0] - (high - part)) + (right[0] - part) + left[1] + right[1]
    rounded = high + low
    return rounded, low - (rounded - high)


def _extremes(values: pl.Series, first: _Places, last: _Places, *, is_least: bool) -> pl.Series:
    """Return the least or the greatest value of each range; of no values, anything."""
    if values.dtype.is_float():
        if values.is_nan().any():
            raise InexactError(f"`{values.name}` has values that are not a number")
        nothing: float = math.inf if is_least else -math.inf
        numbers = values.fill_null(nothing).to_numpy()
    else:
        nothing = np.iinfo(np.int64).max if is_least else np.iinfo(np.int64).min
        numbers = values.cast(pl.Int64).fill_null(nothing).to_numpy()
    choose = np.minimum if is_least else np.maximum
    (found,) = _fold(
        (numbers,), (nothing,), lambda one, other: (choose(one[0], other[0]),), first, last
    )
    return pl.Series(found)


def _fold(
    rows: _State,
    identity: tuple[float, ...],
    merge: Callable[[_State, _State], _State],
    first: _Places,
    last: _Places,
) -> _State:
    """Return the merged states of the rows of each range, in any order.

    Ranges are folded level by level: each level has the merged states of pairs of the one below,
    and a range takes at most two states of each level.
    """
    found = tuple(
        np.full(len(first), one, part.dtype) for one, part in zip(identity, rows, strict=True)
    )
    places = np.flatnonzero(first < last)
    low, high, level = first[places], last[places], rows
    while len(places):
        is_right = low & 1 == 1
        _merge_into(found, places[is_right], level, low[is_right], merge)
        low = low + is_right
        is_left = (high & 1 == 1) & (low < high)
        high = high - is_left
        _merge_into(found, places[is_left], level, high[is_left], merge)
        low, high = low >> 1, high >> 1
        is_open = low < high
        places, low, high = places[is_open], low[is_open], high[is_open]
        level = _pairs(level, merge)
    return found


def _pairs(level: _State, merge: Callable[[_State, _State], _State]) -> _State:
    """Merge each state at an even place with the next one; the last one may be alone."""
    paired = len(level[0]) // 2 * 2
    merged = merge(
        tuple(part[:paired:2] for part in level), tuple(part[1:paired:2] for part in level)
    )
    if paired == len(level[0]):
        return merged
    return tuple(np.append(one, part[-1:]) for one, part in zip(merged, level, strict=True))


def _merge_into(
    found: _State,
    places: _Places,
    level: _State,
    taken: _Places,
    merge: Callable[[_State, _State], _State],
) -> None:
    states = tuple(part[taken] for part in level)
    merged = merge(tuple(part[places] for part in found), states)
    for part, one in zip(found, merged, strict=True):
        part[places] = one
