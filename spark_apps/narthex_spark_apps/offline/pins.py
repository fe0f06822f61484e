"""The log offsets at which an offline query reads each dataset, so that it can be asked again.

A history contains every fact state with its place in the log, so the states below some offsets are
the same whenever they are read, whatever was appended or compacted since. A query fixes the offsets
that the histories contain when it begins; a row with offsets of its own is read at those.
"""

import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import polars as pl

from narthex._base import Backoff, Json
from narthex._ir import HistorySpec
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.offline_request import OfflineDataset, OfflineQuery
from narthex_stores import (
    HistorySnapshot,
    HistoryTable,
    TransientError,
    fact_schema,
    storage_options,
)

REACH_WITHIN_S: Final = 120.0
"""How long to wait until a history contains what an online answer had read: writers of histories
write every two seconds, and up to a minute apart when there are hundreds."""
LOOKS: Final = Backoff(first_s=0.5, greatest_s=2.0)

_SAMPLED_FILES: Final = 3
_SAMPLED_STATES: Final = 2_000
"""How many states of a file are read to estimate the size of all."""

LimitsOf: TypeAlias = Mapping[str, ReplayLimit]
"""The log offsets at which each dataset is read."""

_Offsets: TypeAlias = Mapping[int, int]


@attrs.frozen(kw_only=True)
class PinnedDataset:
    """A dataset with a snapshot of its history."""

    dataset: OfflineDataset
    history: HistorySnapshot

    @property
    def limits(self) -> ReplayLimit:
        """The offsets of the snapshot as the limits of a lookup."""
        return _limits(self.history.offsets)

    def read(self, columns: Sequence[str], limits: ReplayLimit) -> pl.DataFrame:
        """Read columns of the fact states below some offsets that the snapshot contains."""
        history = self.history
        if not history.files:
            empty = fact_schema(self.dataset.plan.log).empty_table()
            return pl.DataFrame(pl.from_arrow(empty)).select(columns)
        states = scan_states(history.files, self.below(limits), storage=history.storage)
        return states.select(columns).collect()

    def below(self, limits: ReplayLimit) -> ReplayLimit | None:
        """Return the offsets that states have to be below; None if all states of the files are."""
        return None if limits == self.limits else limits

    def bytes_in_memory(self, columns: Sequence[str]) -> int:
        """Estimate the bytes of columns of all states, from the first states of some files."""
        files = self.history.files
        most = 0.0
        for file in files[:: -(-len(files) // _SAMPLED_FILES) or 1]:
            states = scan_states([file], None, storage=self.history.storage)
            sample = states.select(columns).head(_SAMPLED_STATES).collect()
            most = max(most, sample.estimated_size() / max(sample.height, 1))
        return math.ceil(most * self.history.states)


def scan_states(
    files: Sequence[str], limits: ReplayLimit | None, *, storage: Mapping[str, str]
) -> pl.LazyFrame:
    """Scan the fact states of files of a history that are below some offsets.

    Args:
        files: Paths or URLs of Parquet files.
        limits: The offsets; None for all states.
        storage: Options of the object store.
    """
    states = pl.scan_parquet(list(files), glob=False, storage_options=dict(storage) or None)
    return states if limits is None else states.filter(_is_below(json.loads(limits)))


def _is_below(offsets: Mapping[str, int]) -> pl.Expr:
    """Whether a state is below the offsets, of which those of absent partitions are 0."""
    below = [
        (pl.col("partition") == int(partition)) & (pl.col("offset") < end)
        for partition, end in offsets.items()
    ]
    return pl.any_horizontal(pl.lit(value=False), *below)


@attrs.frozen(kw_only=True)
class PinnedQuery:
    """The datasets of a query, pinned.

    Attributes:
        at: The offsets of rows without offsets of their own.
        limits: The limits of each dataset by the text of the offsets that a row names.
    """

    datasets: Mapping[str, PinnedDataset]
    at: LimitsOf
    limits: Mapping[str, LimitsOf]

    def plain(self) -> dict[str, Json]:
        """Return the offsets of rows without offsets of their own, as `at` of a request."""
        return {
            name: {pinned.dataset.log: json.loads(self.at[name])}
            for name, pinned in self.datasets.items()
        }


def pin(query: OfflineQuery, texts: Collection[str]) -> PinnedQuery:
    """Pin the datasets of a query at what their histories contain now.

    Args:
        query: The query.
        texts: The offsets that its rows name; an empty text names none.

    Raises:
        TypeError: A text does not have the form of offsets.
        TransientError: A history does not contain the offsets that a row names, in time.
    """
    asked = {text: _parse(query, text) for text in {query.at, *texts}}
    pinned = {
        name: _pin(dataset, [offsets[name] for offsets in asked.values() if name in offsets])
        for name, dataset in query.datasets.items()
    }
    limits = {
        text: {
            name: _limits(offsets[name]) if name in offsets else dataset.limits
            for name, dataset in pinned.items()
        }
        for text, offsets in asked.items()
    }
    at = limits[query.at]
    return PinnedQuery(datasets=pinned, at=at, limits=limits | {"": at})


def _pin(dataset: OfflineDataset, asked: Collection[_Offsets]) -> PinnedDataset:
    table = HistoryTable(
        dataset.history,
        HistorySpec(log=dataset.plan.log),
        storage=storage_options(os.environ),
    )
    needed: dict[int, int] = {}
    for offsets in asked:
        for partition, offset in offsets.items():
            needed[partition] = max(offset, needed.get(partition, 0))
    for _ in LOOKS.attempts(within_s=REACH_WITHIN_S):
        history = table.snapshot()
        if all(history.offsets.get(number, 0) >= offset for number, offset in needed.items()):
            return PinnedDataset(dataset=dataset, history=history)
    raise TransientError(
        f"the history of `{dataset.plan.name}` contains the offsets {_limits(table.offsets())} "
        f"after {REACH_WITHIN_S:.0f} s, not {_limits(needed)}; ask again once it does"
    )


def _parse(query: OfflineQuery, text: str) -> dict[str, _Offsets]:
    """Return the offsets by dataset that a text names."""
    named = json.loads(text) if text else {}
    if not isinstance(named, dict):
        raise TypeError(f"{text!r} does not name offsets by dataset")
    return {
        name: _partitions(named[name], dataset.log)
        for name, dataset in query.datasets.items()
        if name in named
    }


def _partitions(named: object, log: str) -> _Offsets:
    if not isinstance(named, dict):
        raise TypeError(f"{named!r} does not name offsets by log")
    offsets = named.get(log, {})
    if not isinstance(offsets, dict):
        raise TypeError(f"{offsets!r} does not name offsets by partition")
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def _limits(offsets: _Offsets) -> ReplayLimit:
    return json.dumps({str(number): offset for number, offset in sorted(offsets.items())})
