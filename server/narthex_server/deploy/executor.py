"""The steps of a commit, each idempotent: the effect happens once, for any caller.

Airflow's tasks, the recovery loop, the CLI and the tests all call this module. The ledger
decides every transition; this module only calls the stores in between, in the order that
`design` demands: intent, call, probe, done.
"""

import time
from collections.abc import Callable, Mapping
from uuid import UUID

import attrs
import structlog

from narthex._base import Json
from narthex._ir import AssetBlueprint, AssetKind, Definitions, physical_name
from narthex._runtime.environments import BuildFailedError
from narthex_ledger import (
    ROW_KINDS,
    TENANT,
    AlreadyLive,
    AuditView,
    CommitState,
    CommitView,
    Fence,
    Go,
    Ledger,
    NotReady,
    PromotionState,
    Readiness,
    Waiting,
    WrongState,
)
from narthex_server.definitions.bundles import read_bundle
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.quality_gates import QualityGates
from narthex_server.erasures.erased_rows import follow_sources
from narthex_server.errors import Conflicting, Gone
from narthex_server.tracing import Tracing, span
from narthex_stores import Absent, Adapter, Match, Mismatch, StoreError, Unknown

log = structlog.get_logger()

CALL_TIMEOUT_S = 10.0
"""The timeout of one call to a store; less than a commit's lease."""

TRUSTED_S = 25.0
"""How long after requesting a claim this process trusts its lease, by its own clock."""


class StepDeferred(Conflicting):
    """The step cannot be taken now; retry. The message names what it waits for."""


class StepImpossible(Gone):
    """The step can never be taken; the commit is being aborted."""


@attrs.frozen(kw_only=True)
class Executor:
    """Drives commits through the ledger and the stores.

    Attributes:
        owner: The owner of the commits that this process drives; a restarted process is another.
        gates: The checks of histories before readers flip.
        diffs: What commits change in the values that readers read.
        environments: Installs the packages of locks.
        tracing: Lets steps join the trace of their commit; None if this process does not trace.
        clock: A monotonic clock, in seconds.
    """

    ledger: Ledger
    adapters: Mapping[AssetKind, Adapter]
    install_id: str
    owner: str
    gates: QualityGates
    diffs: CommitDiffs
    environments: EnvironmentBuilds
    tracing: Tracing | None = None
    clock: Callable[[], float] = time.monotonic
    _kinds: dict[int, AssetKind] = attrs.field(factory=dict, repr=False)

    def plan(self, commit_id: UUID) -> CommitView:
        """Take T1: decide and reserve; a second call returns the reservation of the first.

        Raises:
            NotInstalled: The packages of the commit's locks are being installed.
            StepImpossible: They cannot be installed; the commit is rejected.
        """
        view = self.ledger.commits.get(commit_id)
        if view.state is CommitState.QUEUED:
            with span("plan"):
                self._plan(view)
            view = self.ledger.commits.get(commit_id)
        return view

    def _plan(self, view: CommitView) -> None:
        commit_id = view.commit_id
        definitions = read_bundle(self.ledger.bundles.of_commit(commit_id)).definitions
        try:
            self.environments.require(definitions)
        except BuildFailedError as error:
            why = f"the packages of the lock cannot be installed: {error}"
            self.abort(commit_id, why)
            raise StepImpossible(why) from None
        fence = self._claim(commit_id)
        blueprint = compile_definitions(definitions)
        follow_sources(self.ledger, view.tenant_id, blueprint)
        self.ledger.commits.plan(
            commit_id,
            fence,
            blueprint=blueprint,
            name_of=self.name_of,
        )

    def name_of(self, blueprint: AssetBlueprint, incarnation: int) -> str:
        """Return the physical name of a blueprint's incarnation."""
        return physical_name(
            install_id=self.install_id,
            tenant=TENANT,
            kind=blueprint.kind,
            fp_version=blueprint.fp_version,
            fingerprint=blueprint.fingerprint,
            incarnation=incarnation,
        )

    def create(self, commit_id: UUID, asset_id: int) -> str:
        """Create one asset of the commit; return `live`.

        Raises:
            StepDeferred: A dependency is not live yet, or the store does not answer.
            StepImpossible: The store contradicts the ledger; the asset is quarantined, the commit
            aborts.
        """
        leased_until = self.clock() + TRUSTED_S
        fence = self._claim(commit_id)
        if self._kind(commit_id, asset_id) in ROW_KINDS:
            outcome = self.ledger.assets.create_row(asset_id, commit_id, fence)
        else:
            outcome = self.ledger.assets.intend(
                asset_id, commit_id, fence, call_timeout_s=CALL_TIMEOUT_S
            )
        match outcome:
            case AlreadyLive():
                return "live"
            case Waiting(needs=needs, owner_commit_id=other):
                waits_for = f"commit {other}" if other else f"assets {list(needs)}"
                raise StepDeferred(f"asset {asset_id} waits for {waits_for}")
            case Go():
                # After a long pause the lease may have another owner: make no call any more.
                if self.clock() + CALL_TIMEOUT_S > leased_until:
                    raise StepDeferred(
                        f"asset {asset_id} must be claimed again before it is created"
                    )
                with span("create asset", {"narthex.asset.kind": outcome.asset.kind.value}):
                    return self._make(commit_id, fence, outcome)

    def _kind(self, commit_id: UUID, asset_id: int) -> AssetKind:
        if asset_id not in self._kinds:
            for asset in self.ledger.commits.get(commit_id).assets:
                self._kinds[asset.asset_id] = asset.kind
        if asset_id not in self._kinds:
            raise StepImpossible(f"commit {commit_id} has no asset {asset_id}")
        return self._kinds[asset_id]

    def _make(self, commit_id: UUID, fence: Fence, go: Go) -> str:
        asset = go.asset
        adapter = self.adapters[asset.kind]
        try:
            with span("store: create"):
                adapter.create(
                    asset.physical_name,
                    asset.spec,
                    asset_id=asset.asset_id,
                    timeout_s=CALL_TIMEOUT_S,
                )
        except StoreError as error:
            # A call's own answer is advisory: the probe decides.
            self.ledger.assets.create_failed(asset.asset_id, commit_id, fence, error=str(error))
        with span("store: probe"):
            found = adapter.probe(asset.physical_name, asset.spec, timeout_s=CALL_TIMEOUT_S)
        match found:
            case Match(external_id=external_id):
                self.ledger.assets.created(
                    asset.asset_id, commit_id, fence, external_id=external_id
                )
                return "live"
            case Mismatch(difference=difference):
                self.ledger.assets.quarantine(
                    asset.asset_id, commit_id, fence, difference=difference
                )
                self.abort(commit_id, f"asset {asset.asset_id} differs from its spec")
                raise StepImpossible(difference)
            case Absent():
                raise StepDeferred(f"asset {asset.asset_id} does not exist yet")
            case Unknown(error=why):
                self.ledger.assets.create_failed(asset.asset_id, commit_id, fence, error=why)
                raise StepDeferred(f"the store of asset {asset.asset_id} does not respond: {why}")

    def ready(self, commit_id: UUID) -> None:
        """Take T_ready: every bound asset is live."""
        self.ledger.commits.ready(commit_id, self._claim(commit_id))

    def commit(self, commit_id: UUID) -> int:
        """Take T_commit: the head moves; creation is final from here on."""
        with span("commit point"):
            return self.ledger.commits.commit_point(commit_id, self._claim(commit_id))

    def due_backfills(self, commit_id: UUID) -> list[str]:
        """Return the jobs that have history to drain before they run live."""
        due = self.ledger.backfills.due(commit_id)
        if not due:
            return []
        labels = {
            asset.asset_id: asset.label for asset in self.ledger.commits.get(commit_id).assets
        }
        return [labels[job.asset.asset_id] for job in due]

    def backfilled(self, commit_id: UUID) -> None:
        """Let the jobs run live; refused while a backfill is due."""
        due = self.due_backfills(commit_id)
        if due:
            raise StepDeferred(f"{len(due)} backfills are not finished")
        self.ledger.jobs.start(commit_id, self._claim(commit_id))

    def readiness(self, commit_id: UUID) -> Readiness:
        """Return which jobs of the commit have not caught up."""
        return self.ledger.promotions.readiness(commit_id)

    def quality(self, commit_id: UUID) -> tuple[AuditView, ...]:
        """Return the outcomes of the quality gates of a commit; the first call starts the checks.

        Raises:
            StepDeferred: A job has not caught up.
            NotChecked: A history is not checked yet.
        """
        self._caught_up(commit_id)
        return self.gates.outcomes(commit_id)

    def compare(self, commit_id: UUID) -> None:
        """Compare the values of a commit with those that readers read; the first call starts it.

        Raises:
            StepDeferred: A job has not caught up, or the comparison is not done yet.
        """
        self._caught_up(commit_id)
        if not self.diffs.are_known(commit_id):
            raise StepDeferred("the values are being compared with those that readers read")

    def promote(self, commit_id: UUID) -> None:
        """Take T_promote: readers flip, in one transaction, on evidence of this very moment.

        Raises:
            StepDeferred: A job has not caught up.
            NotChecked: A history is not checked yet.
            QualityBroken: A critical expectation is broken; the commit is to be rolled back.
        """
        view = self.ledger.commits.get(commit_id)
        if view.state is CommitState.FINALIZED:
            return
        if view.promotion is PromotionState.SUPERSEDED:
            # Readers move to a later commit; there is nothing to wait for.
            self.ledger.commits.finalize(commit_id, self._claim(commit_id))
            return
        readiness = self._caught_up(commit_id)
        approval = self.ledger.promotions.approval(commit_id)
        if approval.is_needed and approval.approved_by is None:
            # It is for the person who approves; nothing waits for it here.
            self.diffs.are_known(commit_id)
        gates = [outcome.dataset for outcome in self.gates.outcomes(commit_id)]
        try:
            with span("promote"):
                fence = self._claim(commit_id)
                self.ledger.promotions.promote(
                    commit_id, fence, evidence=readiness.evidence, gates=gates
                )
                self.ledger.commits.finalize(commit_id, fence)
        except NotReady as error:
            raise StepDeferred(str(error)) from error

    def _caught_up(self, commit_id: UUID) -> Readiness:
        readiness = self.ledger.promotions.readiness(commit_id)
        if not readiness.ready:
            waiting = ", ".join(f"{w.label}: {w.why}" for w in readiness.waiting_for[:5])
            raise StepDeferred(f"{len(readiness.waiting_for)} jobs have not caught up: {waiting}")
        return readiness

    def abort(self, commit_id: UUID, error: Json) -> CommitState:
        """Take T_abort and T_unref: abort the commit, and release the assets that it created."""
        return self.ledger.commits.abort(commit_id, error=error, actor=self.owner)

    def _claim(self, commit_id: UUID) -> Fence:
        try:
            return self.ledger.commits.claim(commit_id, owner=self.owner)
        except WrongState as error:
            raise StepImpossible(str(error)) from error


def definitions_of(ledger: Ledger, commit_id: UUID | None) -> Definitions | None:
    """Return the definitions that a commit deployed; None for no commit."""
    if commit_id is None:
        return None
    return read_bundle(ledger.bundles.of_commit(commit_id)).definitions
