"""The route of what no query has read for some time, with what it costs as far as that is known.

Queries, lookups, offline queries and training sets read; inspecting rows, audits, comparisons and
reads of a stored training set do not.
"""

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final

import attrs
from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from narthex._ir import (
    Dataset,
    Definitions,
    FeedSpec,
    PipelineJobSpec,
    SinkJobSpec,
    SourceJobSpec,
)
from narthex_ledger import BranchView
from narthex_server.catalog.entity_use import EntityUse, uses_of
from narthex_server.definitions.data_flow import EntityNode
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.security.visibility import Visibility
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.plain_routes import Instant, PlainRoute
from narthex_stores import disk_bytes, history_path

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])

DAYS: Final = 30
MOST_DAYS: Final = 3650

_UNKNOWN: Final = EntityUse()
_OF_JOBS: Final = (SourceJobSpec, PipelineJobSpec, SinkJobSpec, FeedSpec)


class UnreadEntity(TypedDict):
    """Something of which no read in the span is known.

    Attributes:
        is_certain: Whether its reads were counted in the whole span; else it is younger, or
            counting began later.
        last_read: The newest read before the span, to ten minutes; null if none is known.
        counted_since: Since when reads are counted: since the entity, and each that is computed
            from it, was first seen among what readers of the branch read. Null before that.
    """

    name: str
    is_certain: bool
    last_read: Instant | None
    counted_since: Instant | None


class DatasetCost(TypedDict):
    """The costs of a dataset, as far as they are known; other branches may share them.

    Attributes:
        rows: How many records its log has; null while the broker does not report it.
        history_bytes: What its history occupies on the server's disk; null if it is elsewhere.
        index_bytes: The same of its index; null without one.
        jobs: How many of its jobs and feeds run.
        own_jobs: How many of them readers of other branches do not need.
    """

    rows: int | None
    history_bytes: int | None
    index_bytes: int | None
    jobs: int
    own_jobs: int


class UnreadDataset(UnreadEntity, DatasetCost):
    """A dataset that nothing has read, directly or through what is computed from it.

    Attributes:
        read_through: The visible dataset or feature whose read `last_read` is.
    """

    owner: str
    read_through: str | None


class UnreadFeatureset(UnreadEntity):
    """A featureset with features that nothing has read. Features have no rows and no jobs.

    Attributes:
        features: The names of these features, without the featureset's.
        of: How many features it has.
    """

    owner: str
    features: list[str]
    of: int


class UnreadBranch(UnreadEntity):
    """A branch of which nothing was read.

    Attributes:
        jobs: How many jobs and feeds run for its readers.
        own_jobs: How many of them readers of other branches do not need.
    """

    jobs: int
    own_jobs: int


class Unread(TypedDict):
    """The entities that no query has read in a span until now: those of a branch, and branches.

    Attributes:
        since: The beginning of the span.
        datasets: Datasets: those that are certainly unread first, then by name.
        featuresets: Featuresets, in the same order.
        branches: Branches, in the same order; none for a token that sees some tags only.
    """

    days: int
    since: Instant
    datasets: list[UnreadDataset]
    featuresets: list[UnreadFeatureset]
    branches: list[UnreadBranch]


@attrs.frozen(kw_only=True)
class _RunningJobs:
    """The jobs and feeds that run, by the branches whose readers need them."""

    by_branch: Mapping[str, frozenset[int]]

    @classmethod
    def now(cls, services: Services) -> "_RunningJobs":
        served = services.served.now()
        running = frozenset(services.served.running(served))
        return cls(by_branch={one.name: frozenset(one.jobs) & running for one in served})

    def count(self, branch: str, jobs: Collection[int] | None = None) -> tuple[int, int]:
        """Return how many of a branch's jobs run, and how many of them no other branch needs."""
        running = self.by_branch.get(branch, frozenset())
        if jobs is not None:
            running &= frozenset(jobs)
        others = (needed for name, needed in self.by_branch.items() if name != branch)
        return len(running), len(running.difference(*others))


@router.get("/unread")
def unread(
    services: ServicesDep,
    access: AccessDep,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = DAYS,
) -> Unread:
    """List what no query has read in the last days: datasets, features and branches.

    Inputs of what is read are left out, and so is what a sink writes. For a token that sees some
    tags only, hidden readers count, but are not named.
    """
    since = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    branch = services.ledger.branches.get(services.tenant, access.branch)
    snapshot = services.snapshots.serving(branch.name) if branch.serving_commit_id else None
    jobs = _RunningJobs.now(services)
    datasets: list[UnreadDataset] = []
    featuresets: list[UnreadFeatureset] = []
    if snapshot is not None:
        uses = _uses(services, branch, snapshot)
        seen = access.visibility(snapshot.definitions)
        shown = seen.shown(snapshot.definitions)
        unused = [
            one
            for one in shown.datasets
            if uses.get(("dataset", one.name), _UNKNOWN).is_unused(since)
        ]
        costs = _costs(services, snapshot, branch.name, [one.name for one in unused], jobs)
        datasets = [
            _dataset(one, uses.get(("dataset", one.name), _UNKNOWN), seen, since, costs[one.name])
            for one in unused
        ]
        featuresets = [*_featuresets(shown, uses, since)]
    return {
        "days": days,
        "since": since.isoformat(),
        "datasets": sorted(datasets, key=_order),
        "featuresets": sorted(featuresets, key=_order),
        "branches": sorted(_branches(services, access, jobs, since), key=_order),
    }


def _order(one: UnreadEntity) -> tuple[bool, str]:
    return not one["is_certain"], one["name"]


def _uses(
    services: Services, branch: BranchView, snapshot: BranchSnapshot
) -> Mapping[EntityNode, EntityUse]:
    definitions = snapshot.definitions
    nodes = [("dataset", one.name) for one in definitions.datasets]
    for featureset in definitions.featuresets:
        nodes += [("feature", f"{featureset.name}.{one.name}") for one in featureset.features]
    written = {
        asset.spec.dataset
        for asset in snapshot.bindings.values()
        if isinstance(asset.spec, SinkJobSpec)
    }
    reads = services.ledger.last_reads.of_branch(branch.branch_id)
    return uses_of(nodes, snapshot.edges, reads, written=written)


def _entity(name: str, use: EntityUse, since: dt.datetime) -> UnreadEntity:
    return {
        "name": name,
        "is_certain": use.is_certain(since),
        "last_read": _plain(use.read_at),
        "counted_since": _plain(use.counted_since),
    }


def _plain(instant: dt.datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def _dataset(
    dataset: Dataset, use: EntityUse, seen: Visibility, since: dt.datetime, cost: DatasetCost
) -> UnreadDataset:
    is_named = use.through is not None and use.through not in seen.hidden
    return {
        **_entity(dataset.name, use, since),
        **cost,
        "owner": dataset.metadata.owner,
        "read_through": use.through[1] if use.through is not None and is_named else None,
    }


def _costs(
    services: Services,
    snapshot: BranchSnapshot,
    branch: str,
    names: Collection[str],
    running: _RunningJobs,
) -> dict[str, DatasetCost]:
    """Return the costs of datasets of a branch, by name."""
    logs = {name: snapshot.topic(f"dataset/{name}/log") for name in names}
    counts = services.record_counts.of(logs.values())
    jobs: dict[str, set[int]] = {name: set() for name in names}
    for asset in snapshot.bindings.values():
        spec = asset.spec
        if isinstance(spec, _OF_JOBS) and spec.dataset in jobs:
            jobs[spec.dataset].add(asset.asset_id)
    settings = services.settings
    costs: dict[str, DatasetCost] = {}
    for name in names:
        history = snapshot.bindings.get(f"dataset/{name}/history")
        index = snapshot.bindings.get(f"dataset/{name}/index")
        is_local = index is not None and not settings.index_store
        all_jobs, own_jobs = running.count(branch, jobs[name])
        costs[name] = {
            "rows": counts.get(logs[name]),
            "history_bytes": None
            if history is None
            else disk_bytes(history_path(settings.history_dir, history.physical_name)),
            "index_bytes": disk_bytes(str(settings.index_dir / index.physical_name))
            if index is not None and is_local
            else None,
            "jobs": all_jobs,
            "own_jobs": own_jobs,
        }
    return costs


def _featuresets(
    shown: Definitions, uses: Mapping[EntityNode, EntityUse], since: dt.datetime
) -> Iterator[UnreadFeatureset]:
    """Yield the featuresets with features that were not read."""
    for featureset in shown.featuresets:
        names = [feature.name for feature in featureset.features]
        of = {name: uses.get(("feature", f"{featureset.name}.{name}"), _UNKNOWN) for name in names}
        unused = {name: use for name, use in of.items() if use.is_unused(since)}
        if not unused:
            continue
        counted = [use.counted_since for use in unused.values()]
        together = EntityUse(
            read_at=max((use.read_at for use in unused.values() if use.read_at), default=None),
            counted_since=None if None in counted else max(filter(None, counted)),
        )
        yield {
            **_entity(featureset.name, together, since),
            "owner": featureset.metadata.owner,
            "features": [*unused],
            "of": len(names),
        }


def _branches(
    services: Services, access: Access, running: _RunningJobs, since: dt.datetime
) -> Iterator[UnreadBranch]:
    """Yield the branches that were not read, if the principal sees all of them that are read."""
    if access.principal.tags != ("*",):
        return
    reads = services.ledger.last_reads.of_branches()
    for branch in services.ledger.branches.all(services.tenant):
        if branch.state != "active" or not access.principal.may_name(branch.name):
            continue
        read = reads.get(branch.branch_id)
        use = _UNKNOWN
        if read is not None:
            use = EntityUse(read_at=read.read_at, counted_since=read.counted_since)
        if use.is_unused(since):
            jobs, own_jobs = running.count(branch.name)
            yield {**_entity(branch.name, use, since), "jobs": jobs, "own_jobs": own_jobs}
