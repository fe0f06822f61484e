"""The lookups of an offline query that is answered by columns.

Those of a dataset are one as-of join where `asof_kernel` answers them: in this process if the
states fit into its memory, else on Spark's executors (`asof_job`). Otherwise they are a Spark job
that goes row by row (`lookup_jobs`), whose results become columns.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

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
from narthex_spark_apps.offline.asof_job import floors_by_job
from narthex_spark_apps.offline.asof_kernel import floors, is_answered, state_columns
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.lookup_jobs import OfflineLookup, look_up, sorted_lookups
from narthex_spark_apps.offline.pins import PinnedDataset, PinnedQuery
from narthex_spark_apps.offline.run_progress import RunProgress
from narthex_spark_apps.offline.spine import SpineRows
from narthex_stores import LookupResult

HELD_BYTES: Final = 512 << 20
"""The greatest size of a dataset's states, with their versions, that are joined in a driver: it
needs up to three times as much."""

MOST_OFFSETS: Final = 16
"""The greatest number of different offsets of a dataset: its history is read for each of them."""


class _Join(Protocol):
    """Finds rows of a keyed dataset, as `asof_kernel.floors`, below some offsets."""

    def __call__(
        self, limits: ReplayLimit, *, keys: pl.DataFrame, as_of: pl.Series, take: Sequence[Column]
    ) -> pl.DataFrame:
        """Return the row of each key at its instant."""


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
        if not is_answered(plan, take) or len(groups) > MOST_OFFSETS:
            self.progress.report(looking_up=plan.name, by="historical lookup")
            return self._played_back(pinned, groups, keys, take)
        columns = state_columns(plan.index, take, versioned=True)
        if pinned.bytes_in_memory(columns) <= HELD_BYTES:
            self.progress.report(looking_up=plan.name, by="as-of join")
            return self._joined(functools.partial(_floors, pinned), groups, keys, take)
        self.progress.report(looking_up=plan.name, by="as-of join on executors")
        join = functools.partial(floors_by_job, self.session(), pinned)
        return self._joined(join, groups, keys, take)

    def _by_limits(self, dataset: str) -> Mapping[ReplayLimit, Sequence[int]]:
        """Return the places of the rows at each of the offsets."""
        limits = {text: self.pinned.limits[text][dataset] for text in set(self.rows.offsets)}
        if len(set(limits.values())) == 1:
            return dict.fromkeys(limits.values(), range(len(self.rows.offsets)))
        groups: dict[ReplayLimit, list[int]] = {}
        for place, text in enumerate(self.rows.offsets):
            groups.setdefault(limits[text], []).append(place)
        return groups

    def _joined(
        self,
        join: _Join,
        groups: Mapping[ReplayLimit, Sequence[int]],
        keys: pl.DataFrame,
        take: Sequence[Column],
    ) -> pl.DataFrame:
        if len(groups) == 1:
            (limits,) = groups
            return join(limits, keys=keys, as_of=self.rows.as_of, take=take)
        parts = [
            join(limits, keys=keys[places], as_of=self.rows.as_of[places], take=take).with_columns(
                pl.Series("place", places, dtype=pl.Int64)
            )
            for limits, places in groups.items()
        ]
        return pl.concat(parts).sort("place").drop("place")

    def _played_back(
        self,
        pinned: PinnedDataset,
        groups: Mapping[ReplayLimit, Sequence[int]],
        keys: pl.DataFrame,
        take: Sequence[Column],
    ) -> pl.DataFrame:
        plan = pinned.dataset.plan
        columns = [cells_of(keys[key_name(one)], one.type) for one in plan.log.keys]
        cells: list[tuple[Cell, ...]] = list(zip(*columns, strict=True))
        limits = {place: text for text, places in groups.items() for place in places}
        wanted = [
            None if None in key else OfflineLookup(plan.name, key, at, limits[place])
            for place, (key, at) in enumerate(zip(cells, self.rows.as_of, strict=True))
        ]
        asked = sorted_lookups({one for one in wanted if one is not None})
        found = look_up(self.session(), pinned, asked) if asked else {}
        return _frame(plan, [None if one is None else found[one] for one in wanted], take)


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


def _floors(
    pinned: PinnedDataset,
    limits: ReplayLimit,
    *,
    keys: pl.DataFrame,
    as_of: pl.Series,
    take: Sequence[Column],
) -> pl.DataFrame:
    def read(columns: Sequence[str]) -> pl.DataFrame:
        return pinned.read(columns, limits)

    return floors(pinned.dataset.plan, read, keys=keys, as_of=as_of, take=take)
