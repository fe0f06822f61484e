"""The lookups of an offline query that is answered by columns.

Those of a dataset are computed together where a kernel answers them (`asof_kernel`,
`window_kernel`): in this process if the states fit into its memory, which all its queries share,
else on Spark's executors (`bucket_job`). Otherwise they are a Spark job that goes row by row
(`lookup_jobs`), whose results become columns.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import attrs
import polars as pl
from pyspark.sql import SparkSession

from narthex._columnar_query import (
    EVENT_TIME,
    FOUND,
    cells_of,
    key_name,
    series_of,
    value_name,
)
from narthex._ir import Cell, Column, DatasetPlan
from narthex_spark_apps.offline import asof_kernel, window_kernel
from narthex_spark_apps.offline.asof_kernel import KeyedStates
from narthex_spark_apps.offline.bucket_job import is_divisible, look_up_on_executors
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.kernel import AskedKeys, InexactError, Kernel, look_up_in_memory
from narthex_spark_apps.offline.lookup_jobs import OfflineLookup, look_up, sorted_lookups
from narthex_spark_apps.offline.pins import PinnedDataset, PinnedQuery
from narthex_spark_apps.offline.run_progress import RunProgress
from narthex_spark_apps.offline.spine import SpineRows
from narthex_spark_apps.offline.window_kernel import WindowRows
from narthex_stores import LookupResult

HELD_BYTES: Final = 512 << 20
"""The greatest size of the states, with their versions, that kernels have in a driver at the same
time: they need up to three times as much."""

MOST_OFFSETS: Final = 16
"""The greatest number of different offsets of a dataset: its history is read for each of them."""


class SharedMemory:
    """The memory of a process that the kernels of all its queries share."""

    def __init__(self, most_bytes: int) -> None:
        """Begin with all of it free."""
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size_bytes: int) -> Iterator[None]:
        """Wait until so much is free, or all of it, and hold it."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._held_bytes or self._held_bytes + size_bytes <= self._most_bytes
            )
            self._held_bytes += size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= size_bytes
                self._changed.notify_all()


_OF_KERNELS: Final = SharedMemory(HELD_BYTES)

_LookUp: TypeAlias = Callable[[ReplayLimit, AskedKeys], pl.DataFrame]
"""Looks up keys in the states below some offsets."""


_NAMES: Final[Mapping[type[Kernel], str]] = {KeyedStates: "as-of join", WindowRows: "windows"}
"""The kernels, as the progress of a query names them."""


def kernel_of(plan: DatasetPlan, take: Sequence[Column]) -> type[Kernel] | None:
    """Return the kernel that answers lookups that take these columns; None without one."""
    if asof_kernel.is_answered(plan, take):
        return KeyedStates
    return WindowRows if window_kernel.is_answered(plan, take) else None


@attrs.frozen(kw_only=True)
class ColumnarLookups:
    """The lookups of a query, each at the offsets of its row.

    Attributes:
        session: Returns the Spark session; called if a dataset needs a Spark job.
    """

    session: Callable[[], SparkSession]
    pinned: PinnedQuery
    rows: SpineRows
    progress: RunProgress

    def __call__(
        self, plan: DatasetPlan, keys: pl.DataFrame, take: Sequence[Column]
    ) -> pl.DataFrame:
        """Find the rows of a dataset."""
        pinned = self.pinned.datasets[plan.name]
        groups = self._by_limits(plan.name)
        asked = AskedKeys(keys=keys, as_of=self.rows.as_of, take=take)
        kernel = kernel_of(plan, take) if len(groups) <= MOST_OFFSETS else None
        way = None if kernel is None else self._way_of(kernel, pinned, take)
        if way is not None:
            by, look_up = way
            self.progress.report(looking_up=plan.name, by=by)
            try:
                return _in_groups(look_up, groups, asked)
            except InexactError:
                # The index has an answer for any value.
                pass
        self.progress.report(looking_up=plan.name, by="historical lookup")
        return self._played_back(pinned, groups, asked)

    def _way_of(
        self, kernel: type[Kernel], pinned: PinnedDataset, take: Sequence[Column]
    ) -> tuple[str, _LookUp] | None:
        """Return how a kernel looks up a dataset, and its name; None if it is too large for one."""
        plan, name = pinned.dataset.plan, _NAMES[kernel]
        columns = kernel.columns(plan.index, take, versioned=True)
        size = pinned.bytes_in_memory(columns)
        if size <= HELD_BYTES:
            return name, functools.partial(_in_memory, kernel, pinned, size)
        if not is_divisible(plan):
            return None
        job = functools.partial(look_up_on_executors, self.session(), kernel, pinned)
        return f"{name} on executors", job

    def _by_limits(self, dataset: str) -> Mapping[ReplayLimit, Sequence[int]]:
        """Return the places of the rows at each of the offsets."""
        limits = {text: self.pinned.limits[text][dataset] for text in set(self.rows.offsets)}
        if len(set(limits.values())) == 1:
            return dict.fromkeys(limits.values(), range(len(self.rows.offsets)))
        groups: dict[ReplayLimit, list[int]] = {}
        for place, text in enumerate(self.rows.offsets):
            groups.setdefault(limits[text], []).append(place)
        return groups

    def _played_back(
        self,
        pinned: PinnedDataset,
        groups: Mapping[ReplayLimit, Sequence[int]],
        asked: AskedKeys,
    ) -> pl.DataFrame:
        plan = pinned.dataset.plan
        columns = [cells_of(asked.keys[key_name(one)], one.type) for one in plan.log.keys]
        cells: list[tuple[Cell, ...]] = list(zip(*columns, strict=True))
        limits = {place: text for text, places in groups.items() for place in places}
        wanted = [
            None if None in key else OfflineLookup(plan.name, key, at, limits[place])
            for place, (key, at) in enumerate(zip(cells, asked.as_of, strict=True))
        ]
        lookups = sorted_lookups({one for one in wanted if one is not None})
        found = look_up(self.session(), pinned, lookups) if lookups else {}
        return _frame(plan, [None if one is None else found[one] for one in wanted], asked.take)


def _in_groups(
    look_up: _LookUp, groups: Mapping[ReplayLimit, Sequence[int]], asked: AskedKeys
) -> pl.DataFrame:
    """Look up the keys at each of the offsets."""
    if len(groups) == 1:
        (limits,) = groups
        return look_up(limits, asked)
    parts = [
        look_up(limits, asked.at(places)).with_columns(pl.Series("place", places, dtype=pl.Int64))
        for limits, places in groups.items()
    ]
    return pl.concat(parts).sort("place").drop("place")


def _frame(
    plan: DatasetPlan, rows: Sequence[LookupResult | None], take: Sequence[Column]
) -> pl.DataFrame:
    places = {column.name: place for place, column in enumerate(plan.schema.values)}
    instants = [None if row is None else row.event_time for row in rows]
    return pl.DataFrame(
        [
            pl.Series(FOUND, [row is not None for row in rows], dtype=pl.Boolean),
            pl.Series(EVENT_TIME, instants, dtype=pl.Int64),
            *(
                series_of(
                    value_name(column),
                    [None if row is None else row.values[places[column.name]] for row in rows],
                    column.type,
                )
                for column in take
            ),
        ]
    )


def _in_memory(
    kernel: type[Kernel], pinned: PinnedDataset, size: int, limits: ReplayLimit, asked: AskedKeys
) -> pl.DataFrame:
    def read(columns: Sequence[str]) -> pl.DataFrame:
        return pinned.read(columns, limits)

    with _OF_KERNELS.held(size):
        return look_up_in_memory(kernel, pinned.dataset.plan.index, read, asked)
