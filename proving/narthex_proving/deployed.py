"""The deployment of one commit: definitions, their assets, and the offsets that jobs have read."""

import os
from collections.abc import Callable, Mapping
from typing import TypeAlias
from uuid import UUID

import attrs

from narthex._base import Json
from narthex._formats.wire import decode_commit
from narthex._ir import (
    AssetKind,
    AssetSpec,
    DatasetPlan,
    Definitions,
    FeedSpec,
    LogSpec,
    PipelineJobSpec,
    ResolvedAsset,
    TopicSpec,
)
from narthex.settings import Settings
from narthex_ledger import JobView, Ledger, Phase, Signer, Verifier, phase_of, progress_of
from narthex_stores import (
    Broker,
    IndexStore,
    history_path,
    index_store,
    platform_broker,
    storage_options,
)

TENANT = "default"

Read: TypeAlias = Mapping[str, Mapping[int, int]]
"""Topic to partition to the next offset."""

JobsRead: TypeAlias = Callable[[], Mapping[int, Read]]
"""Returns the current offsets of each live job, by asset id; jobs that do not run are left out."""


class NothingServesError(LookupError):
    """The branch does not serve a commit."""


@attrs.frozen(kw_only=True)
class Deployed:
    """One commit of a platform, with the data that a proof needs.

    Attributes:
        commit_id: The id of the commit; a clone's commit binds another commit's manifest.
        bindings: Logical path to asset.
        plans: The read plans of the datasets, by name.
        storage: Options of the store of histories.
    """

    install_id: str
    commit_id: UUID
    definitions: Definitions
    plans: Mapping[str, DatasetPlan]
    bindings: Mapping[str, ResolvedAsset]
    kafka: Broker
    indexes: IndexStore
    history_dir: str
    storage: Mapping[str, str]
    jobs_read: JobsRead

    def topic(self, dataset: str) -> ResolvedAsset:
        """Return the topic of a dataset's log."""
        return self.bindings[f"dataset/{dataset}/log"]

    def log(self, dataset: str) -> LogSpec:
        """Return the spec of a dataset's log.

        Raises:
            TypeError: The bound asset is not a topic of a dataset.
        """
        spec = self.topic(dataset).spec
        if not isinstance(spec, TopicSpec) or spec.log is None:
            raise TypeError(f"the log of `{dataset}` is not a topic of a dataset")
        return spec.log

    def feeds(self, dataset: str, kind: AssetKind) -> tuple[ResolvedAsset, ...]:
        """Return the feeds of one kind that read a dataset's log, each once."""
        found = {
            asset.asset_id: asset
            for asset in self.bindings.values()
            if asset.kind is kind and _dataset_of(asset.spec) == dataset
        }
        return tuple(found.values())

    def jobs(self, dataset: str) -> tuple[ResolvedAsset, ...]:
        """Return the jobs of the pipelines that fill a dataset."""
        found = {
            asset.asset_id: asset
            for asset in self.bindings.values()
            if isinstance(asset.spec, PipelineJobSpec) and asset.spec.dataset == dataset
        }
        return tuple(found.values())

    def history_path(self, physical_name: str) -> str:
        """Return the path or URL of a history."""
        return history_path(self.history_dir, physical_name)


def _dataset_of(spec: AssetSpec) -> str | None:
    return spec.dataset if isinstance(spec, FeedSpec) else None


def deployed(
    settings: Settings, *, branch: str = "main", commit_id: UUID | None = None
) -> Deployed:
    """Read the deployment of a commit, or else of the commit that the branch serves.

    Raises:
        NothingServesError: The branch does not serve a commit.
        LedgerError: The branch or the commit does not exist.
    """
    ledger = Ledger(
        settings.ledger_dsn,
        signer=Signer.load(settings.signing_key),
        verifier=Verifier.load(settings.verifying_key),
    )
    if commit_id is None:
        commit_id = ledger.branches.get(
            ledger.installation.ensure_tenant(TENANT), branch
        ).serving_commit_id
    if commit_id is None:
        raise NothingServesError(f"branch `{branch}` serves no commit yet")
    manifest = ledger.manifests.get(commit_id)
    return Deployed(
        install_id=settings.install_id,
        commit_id=commit_id,
        plans={plan.name: plan for plan in manifest.plans},
        definitions=decode_commit(ledger.bundles.of_commit(commit_id)).definitions,
        bindings=manifest.bindings,
        kafka=platform_broker(settings),
        indexes=index_store(settings),
        history_dir=settings.history_dir,
        storage=storage_options(os.environ),
        jobs_read=lambda: _jobs_read(ledger.jobs.all()),
    )


def _jobs_read(jobs: tuple[JobView, ...]) -> dict[int, Read]:
    return {
        job.asset.asset_id: _offsets(progress_of(job))
        for job in jobs
        if phase_of(job) is not Phase.FAILED
    }


def _offsets(progress: Json) -> Read:
    offsets = progress.get("offsets") if isinstance(progress, dict) else None
    if not isinstance(offsets, dict):
        return {}
    return {
        topic: {int(partition): int(str(offset)) for partition, offset in read.items()}
        for topic, read in offsets.items()
        if isinstance(read, dict)
    }
