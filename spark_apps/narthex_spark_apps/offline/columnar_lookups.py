"""The lookups of an offline query that is answered by columns.

Those of a dataset are one as-of join where `asof_kernel` answers them. Otherwise they are a Spark
job (`lookup_jobs`), whose results become columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

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
from narthex_spark_apps.offline.asof_kernel import floors, is_answered
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.lookup_jobs import OfflineLookup, look_up, sorted_lookups
from narthex_spark_apps.offline.pins import PinnedDataset, PinnedQuery
from narthex_spark_apps.offline.run_progress import RunProgress
from narthex_spark_apps.offline.spine import SpineRows
from narthex_stores import LookupResult

MOST_STATES: Final = 5_000_000
"""The greatest number of fact states that are read into the memory of a driver at once."""

MOST_OFFSETS: Final = 16
"""The greatest number of different offsets of a dataset: its history is read for each of them."""


@attrs.frozen(kw_only=True)
class ColumnarLookups:
    """The lookups of a query, each at the offsets of its row.

    Attributes:
        session: Returns the Spark session; called if the kernel does not answer a dataset.
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
        is_joined = (
            is_answered(plan, take)
            and len(groups) <= MOST_OFFSETS
            and pinned.history.states <= MOST_STATES
        )
        by = "as-of join" if is_joined else "historical lookup"
        self.progress.report(looking_up=plan.name, by=by)
        if is_joined:
            return self._joined(pinned, groups, keys, take)
        return self._played_back(pinned, groups, keys, take)

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
        pinned: PinnedDataset,
        groups: Mapping[ReplayLimit, Sequence[int]],
        keys: pl.DataFrame,
        take: Sequence[Column],
    ) -> pl.DataFrame:
        if len(groups) == 1:
            (limits,) = groups
            return _floors(pinned, limits, keys, self.rows.as_of, take)
        parts = [
            _floors(pinned, limits, keys[places], self.rows.as_of[places], take).with_columns(
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
    keys: pl.DataFrame,
    as_of: pl.Series,
    take: Sequence[Column],
) -> pl.DataFrame:
    def read(columns: Sequence[str]) -> pl.DataFrame:
        return pinned.read(columns, limits)

    return floors(pinned.dataset.plan, read, keys=keys, as_of=as_of, take=take)
