"""Questions about the features of two manifests, which the process of diffs answers."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import structlog

from narthex._analysis import FeatureGraph, feature_graph, is_same_graph
from narthex._base import Json, to_plain
from narthex._ir import DatasetPlan, Definitions, ResolvedAsset
from narthex._query import GarbledAnswerError, LoggedQuery
from narthex.settings import Settings
from narthex_server.deploy.logged_queries import newest_records
from narthex_server.deploy.value_diffs import side_of
from narthex_stores import Record, StoreError

log = structlog.get_logger()

MOST_QUERIES: Final = 1_000
MOST_LOGGED_ROWS: Final = 2_000
"""How many of the newest logged queries are read for rows, and how many rows are taken."""

LoggedRows: TypeAlias = Callable[[str], Sequence[Json]]
"""Returns rows of given features that were logged on a branch, by full name."""


@attrs.frozen(kw_only=True)
class FeatureManifest:
    """The features of a manifest."""

    definitions: Definitions
    plans: Sequence[DatasetPlan]
    bindings: Mapping[str, ResolvedAsset]

    @property
    def featuresets(self) -> frozenset[str]:
        """The names of its featuresets with a feature that is computed."""
        return frozenset(one.name for one in self.definitions.featuresets if one.extractors)

    def graph(self, featureset: str) -> FeatureGraph:
        """Return what a featureset is computed from."""
        return feature_graph(self.definitions, featureset)

    def histories(self, graph: FeatureGraph) -> dict[str, int | None]:
        """Return the assets of the histories of the datasets that are looked up."""
        found = {name: self.bindings.get(f"dataset/{name}/history") for name in graph.datasets}
        return {name: None if one is None else one.asset_id for name, one in found.items()}

    def side(self, featureset: str, *, history_dir: str) -> dict[str, Json]:
        """Return a side of a question, as the process reads it."""
        datasets: dict[str, Json] = {}
        for name in self.graph(featureset).datasets:
            found = side_of(name, self.plans, self.bindings, history_dir=history_dir)
            datasets |= found or {}
        return {"definitions": to_plain(_features_of(self.definitions)), "datasets": datasets}


def _features_of(definitions: Definitions) -> Definitions:
    """Return definitions without what features do not need: the code of pipelines and sources."""
    bare = (
        attrs.evolve(one, pipelines=(), sources=(), sinks=(), expectations=())
        for one in definitions.datasets
    )
    return attrs.evolve(definitions, datasets=tuple(bare))


def feature_question(
    featureset: str,
    sides: Sequence[FeatureManifest],
    *,
    history_dir: str,
    choice: Mapping[str, Json],
) -> dict[str, Json]:
    """Return a question about a featureset, as of now."""
    return {
        "dataset": featureset,
        "featureset": featureset,
        "sides": [one.side(featureset, history_dir=history_dir) for one in sides],
        "now": time.time_ns() // 1000,
        **choice,
    }


def changed_featuresets(first: FeatureManifest, second: FeatureManifest) -> Iterator[str]:
    """Yield the featuresets of both manifests that are computed otherwise, or from other rows."""
    for name in sorted(first.featuresets & second.featuresets):
        before, after = first.graph(name), second.graph(name)
        is_same = is_same_graph(before, after)
        if not is_same or first.histories(before) != second.histories(after):
            yield name


def logged_rows(settings: Settings, branch: str) -> list[Json]:
    """Return the newest rows of given features that were logged on a branch.

    There are none while the broker does not answer.
    """
    try:
        records = newest_records(settings, MOST_QUERIES)
    except StoreError as error:
        log.warning("logged_queries_not_read", error=str(error))
        return []
    return rows_of(records, branch)


def rows_of(records: Iterable[Record], branch: str) -> list[Json]:
    """Return the rows of given features of logged queries of a branch, the newest first."""
    found: list[Json] = []
    for record in sorted(records, key=lambda one: -one.timestamp_ms):
        try:
            query = LoggedQuery.decoded(record.value or b"")
        except GarbledAnswerError:
            continue
        if query.branch == branch:
            names = [*query.inputs]
            columns = zip(*query.inputs.values(), strict=True)
            found += [dict(zip(names, row, strict=True)) for row in columns]
        if len(found) >= MOST_LOGGED_ROWS:
            break
    return found[:MOST_LOGGED_ROWS]
