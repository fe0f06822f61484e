"""The datasets that the readers of each branch read, with their topics, jobs and bounds."""

import datetime as dt
from collections.abc import Iterable, Mapping
from uuid import UUID

import attrs

from narthex._ir import (
    AlertBound,
    AssetKind,
    CodeExtractor,
    Definitions,
    FeedSpec,
    LookupExtractor,
    ResolvedAsset,
)
from narthex_ledger import JOB_KINDS, Ledger, ShardView, TenantId
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.job_labels import job_label


@attrs.frozen(kw_only=True)
class Bound:
    """A bound on a dataset, and the entity whose `@meta` declares it."""

    bound: AlertBound
    declared_by: str


@attrs.frozen(kw_only=True)
class ServedDataset:
    """A dataset that readers of a branch read.

    Attributes:
        feed_id: The feed that writes its history; None without a history.
        log: The topic of its rows.
        quarantine: The topic of its quarantined rows; empty without one.
        jobs: Its jobs and feeds, by their ids.
    """

    name: str
    feed_id: int | None
    log: str
    quarantine: str
    bounds: tuple[Bound, ...]
    jobs: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class ServedBranch:
    """The datasets and jobs that readers of a branch read, and since when.

    Attributes:
        featuresets: The names of its featuresets.
        jobs: The labels of its jobs and feeds, by their ids.
    """

    name: str
    commit_id: UUID
    since: dt.datetime
    datasets: tuple[ServedDataset, ...]
    jobs: Mapping[int, str]
    featuresets: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RunningJob:
    """A job that ought to run, as its supervisors report it."""

    label: str
    shards: tuple[ShardView, ...]


@attrs.define(kw_only=True)
class ServedBranches:
    """Reads the served branches; what never changes, it reads once."""

    ledger: Ledger
    tenant: TenantId
    _served: dict[UUID, ServedBranch] = attrs.field(factory=dict, init=False)

    def now(self) -> tuple[ServedBranch, ...]:
        """Return all branches with readers: `main` first, then by name.

        Raises:
            LedgerError: The ledger does not answer.
        """
        served = [
            (not view.is_main, view.name, view.serving_commit_id)
            for view in self.ledger.branches.all(self.tenant)
            if view.state == "active" and view.serving_commit_id is not None
        ]
        found = []
        for _, name, commit_id in sorted(served):
            known = self._served.get(commit_id)
            found.append(self._load(name, commit_id) if known is None else known)
        self._served = {branch.commit_id: branch for branch in found}
        return tuple(found)

    def running(self, branches: Iterable[ServedBranch]) -> dict[int, RunningJob]:
        """Return those jobs and feeds of branches that ought to run, by their ids.

        Raises:
            LedgerError: The ledger does not answer.
        """
        labels = {job: label for branch in branches for job, label in branch.jobs.items()}
        return {
            job: RunningJob(label=labels[job], shards=shards)
            for job, shards in self.ledger.jobs.running(labels).items()
        }

    def _load(self, branch: str, commit_id: UUID) -> ServedBranch:
        commit = self.ledger.commits.get(commit_id)
        bindings: Mapping[str, ResolvedAsset] = {}
        if commit.manifest_id is not None:
            bindings = self.ledger.manifests.get(commit.manifest_id).bindings
        definitions = read_bundle(self.ledger.bundles.of_commit(commit_id)).definitions
        return ServedBranch(
            name=branch,
            commit_id=commit_id,
            since=commit.finished_at or commit.accepted_at,
            datasets=served_datasets(definitions, bindings),
            featuresets=tuple(one.name for one in definitions.featuresets),
            jobs={
                asset.asset_id: job_label(asset)
                for asset in bindings.values()
                if asset.kind in JOB_KINDS
            },
        )


def served_datasets(
    definitions: Definitions, bindings: Mapping[str, ResolvedAsset]
) -> tuple[ServedDataset, ...]:
    """Return the datasets of definitions with their topics, and with all bounds on them."""
    feeds = {
        asset.spec.dataset: asset.asset_id
        for asset in bindings.values()
        if asset.kind is AssetKind.HISTORY_FEED and isinstance(asset.spec, FeedSpec)
    }
    looked_up = bounds_of_featuresets(definitions)
    return tuple(
        ServedDataset(
            name=dataset.name,
            feed_id=feeds.get(dataset.name),
            log=_topic(bindings, f"dataset/{dataset.name}/log"),
            quarantine=_topic(bindings, f"dataset/{dataset.name}/quarantine"),
            bounds=(
                *(Bound(bound=one, declared_by=dataset.name) for one in dataset.metadata.alerts),
                *looked_up.get(dataset.name, ()),
            ),
            jobs=tuple(
                asset.asset_id
                for path, asset in bindings.items()
                if asset.kind in JOB_KINDS and path.startswith(f"dataset/{dataset.name}/")
            ),
        )
        for dataset in definitions.datasets
    )


def _topic(bindings: Mapping[str, ResolvedAsset], path: str) -> str:
    asset = bindings.get(path)
    return "" if asset is None else asset.physical_name


def bounds_of_featuresets(definitions: Definitions) -> dict[str, list[Bound]]:
    """Return the bounds that featuresets put on the datasets that their features look up."""
    found: dict[str, list[Bound]] = {}
    for featureset in definitions.featuresets:
        datasets: set[str] = set()
        for extractor in featureset.extractors:
            match extractor:
                case LookupExtractor():
                    datasets.add(extractor.dataset)
                case CodeExtractor():
                    datasets.update(extractor.datasets)
                case _:
                    continue
        for dataset in sorted(datasets):
            found.setdefault(dataset, []).extend(
                Bound(bound=one, declared_by=featureset.name) for one in featureset.metadata.alerts
            )
    return found
