"""Completes events of the ledger with what their lineage needs: manifests, definitions, jobs."""

from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import UUID

import attrs
import structlog

from narthex._ir import Dataset, ResolvedAsset
from narthex_ledger import (
    JOB_KINDS,
    EventView,
    Ledger,
    LineageBatch,
    LineageCommit,
    NotFound,
    NotSigned,
    assets_of,
    audit_of,
    commit_of,
)
from narthex_server.definitions.bundles import read_bundle
from narthex_server.lineage_events.run_events import (
    SHOWS_DATASETS,
    Happening,
    PhysicalJob,
    topics_of,
)

log = structlog.get_logger()

_Jobs: TypeAlias = Mapping[int, tuple[str, ResolvedAsset]]

_KEPT: Final = 8
"""Of how many manifests the jobs are kept."""


@attrs.frozen
class HappeningReader:
    """Reads what events are about; manifests never change, so their jobs are kept in memory."""

    _ledger: Ledger
    _jobs: dict[UUID, _Jobs] = attrs.field(factory=dict, init=False)

    def read(self, batch: LineageBatch, event: EventView) -> Happening:
        """Return an event of a batch with what it is about.

        Raises:
            LedgerError: The ledger does not answer, or a row does not match its signature.
        """
        commit_id, audit_id = commit_of(event), audit_of(event)
        audit = None if audit_id is None else batch.audits.get(audit_id)
        if audit is not None and audit.commit_id is not None:
            commit_id = audit.commit_id
        commit = None if commit_id is None else batch.commits.get(commit_id)
        happening = Happening(
            event=event, commit=commit, audit=audit, jobs=self._jobs_of(batch, event)
        )
        if commit is None or commit.manifest_id is None or event.transition not in SHOWS_DATASETS:
            return happening
        manifest = self._ledger.manifests.get(commit.manifest_id)
        return attrs.evolve(
            happening,
            plans=manifest.plans,
            topics=topics_of(manifest.bindings.items()),
            definitions=self._definitions(commit),
        )

    def _jobs_of(self, batch: LineageBatch, event: EventView) -> tuple[PhysicalJob, ...]:
        found: list[PhysicalJob] = []
        for asset_id in assets_of(event):
            introducer = batch.introduced_by.get(asset_id)
            commit = None if introducer is None else batch.commits.get(introducer)
            if commit is None or commit.manifest_id is None:
                continue
            path, asset = self._bound(commit.manifest_id).get(asset_id, ("", None))
            if asset is not None:
                found.append(
                    PhysicalJob(
                        asset=asset,
                        path=path,
                        commit_id=commit.commit_id,
                        branch=commit.branch,
                        commit_kind=commit.kind,
                    )
                )
        return tuple(found)

    def _bound(self, manifest_id: UUID) -> _Jobs:
        """Return the jobs that a manifest binds, with their first paths, by asset."""
        jobs = self._jobs.get(manifest_id)
        if jobs is None:
            bindings = self._ledger.manifests.get(manifest_id).bindings
            jobs = {
                asset.asset_id: (path, asset)
                for path, asset in sorted(bindings.items(), reverse=True)
                if asset.kind in JOB_KINDS
            }
            while len(self._jobs) >= _KEPT:
                self._jobs.pop(next(iter(self._jobs)))
            self._jobs[manifest_id] = jobs
        return jobs

    def _definitions(self, commit: LineageCommit) -> Mapping[str, Dataset]:
        """Return a commit's datasets as they are declared; none if they cannot be read."""
        try:
            payload = read_bundle(self._ledger.bundles.of_commit(commit.commit_id))
        except (NotFound, NotSigned, ValueError) as error:
            log.warning(
                "lineage_without_definitions",
                commit_id=str(commit.commit_id),
                error=type(error).__name__,
            )
            return {}
        return {dataset.name: dataset for dataset in payload.definitions.datasets}
