"""An offline query by columns: which queries are answered so, and their lookups."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import polars as pl
import pyarrow as pa

from narthex._base import Json
from narthex._columnar_query import execute_columns, is_columnar, native_array
from narthex._ir import Column, DatasetPlan
from narthex._query import LookupStep, ReadPlan
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.offline.asof_kernel import floors, is_answered
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.pins import PinnedDataset, PinnedQuery
from narthex_spark_apps.offline.spine import SpineRows

MOST_STATES: Final = 5_000_000
"""The greatest number of fact states that a query reads into the memory of its driver."""

MOST_OFFSETS: Final = 16
"""The greatest number of different offsets in a spine: the history is read for each of them."""


def is_answered_by_columns(plan: ReadPlan, pinned: PinnedQuery, rows: SpineRows) -> bool:
    """Return whether `answer_by_columns` can answer a query."""
    if not is_columnar(plan) or len(set(rows.offsets)) > MOST_OFFSETS:
        return False
    steps = [step for step in plan.steps if isinstance(step, LookupStep)]
    states = sum(pinned.datasets[name].history.states for name in {s.dataset.name for s in steps})
    return states <= MOST_STATES and all(is_answered(s.dataset, _taken(s)) for s in steps)


def _taken(step: LookupStep) -> list[Column]:
    names = {take.column for request in step.requests for take in request.takes}
    return [column for column in step.dataset.schema.values if column.name in names]


def answer_by_columns(
    plan: ReadPlan,
    pinned: PinnedQuery,
    rows: SpineRows,
    *,
    workers: WorkerPool,
    progress: Callable[[dict[str, Json]], None],
) -> pa.Table:
    """Answer a query that `is_answered_by_columns` accepts, in the order of its rows."""
    lookups = _Lookups(pinned=pinned, rows=rows, progress=progress)
    answers = execute_columns(plan, rows.frame, lookup=lookups, workers=workers, as_of=rows.as_of)
    return pa.table(
        {name: native_array(series, plan.types[name]) for name, series in answers.items()}
    )


@attrs.frozen(kw_only=True)
class _Lookups:
    """The lookups of a query, each at the offsets of its row."""

    pinned: PinnedQuery
    rows: SpineRows
    progress: Callable[[dict[str, Json]], None]

    def __call__(
        self, plan: DatasetPlan, keys: pl.DataFrame, take: Sequence[Column]
    ) -> pl.DataFrame:
        """Find the rows of a dataset."""
        self.progress({"rows": keys.height, "looking_up": plan.name, "lookups": keys.height})
        groups = self._by_limits(plan.name)
        pinned = self.pinned.datasets[plan.name]
        if len(groups) == 1:
            (limits,) = groups
            return _floors(pinned, limits, keys, self.rows.as_of, take)
        parts = [
            _floors(pinned, limits, keys[places], self.rows.as_of[places], take).with_columns(
                pl.Series("place", places)
            )
            for limits, places in groups.items()
        ]
        return pl.concat(parts).sort("place").drop("place")

    def _by_limits(self, dataset: str) -> Mapping[ReplayLimit, Sequence[int]]:
        limits = {text: self.pinned.limits[text][dataset] for text in set(self.rows.offsets)}
        if len(set(limits.values())) == 1:
            return dict.fromkeys(limits.values(), ())
        groups: dict[ReplayLimit, list[int]] = {}
        for place, text in enumerate(self.rows.offsets):
            groups.setdefault(limits[text], []).append(place)
        return groups


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
