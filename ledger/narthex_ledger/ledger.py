"""The public API of the ledger, for all other packages."""

import hashlib
from collections.abc import Collection, Iterable
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetRef
from narthex_ledger.branches.api import BranchApi
from narthex_ledger.commits.api import CommitApi
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import offline as on_offline
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.engines.api import EngineApi
from narthex_ledger.errors import NotFound, NotSigned
from narthex_ledger.gc.api import CollectorApi
from narthex_ledger.model.audit_views import AuditView, InstallView
from narthex_ledger.model.states import OfflineState
from narthex_ledger.model.views import (
    BranchId,
    BranchView,
    CommitView,
    EventView,
    ManifestView,
    OfflineView,
    RetainedAssetView,
    ServingView,
    TenantId,
)
from narthex_ledger.reading import queries
from narthex_ledger.requests import offline_queries
from narthex_ledger.requests.webhook_calls import EndpointCallApi
from narthex_ledger.security.api import ControlApi
from narthex_ledger.signing.signatures import commit_statement, offline_statement

_KEPT_MANIFESTS = 64


class Ledger(CommitApi, BranchApi, EndpointCallApi, CollectorApi, ControlApi, EngineApi):
    """The ledger's actual and desired state; one object per process, shared by threads."""

    def install(self, install_id: str, *, slots: int = 16) -> InstallView:
        """Name the installation and create its slots; the first call decides both."""

        def work(connection: Connection) -> InstallView:
            on_offline.put_install(connection, install_id)
            if on_jobs.slot_count(connection, self._rules.slot_space) == 0:
                on_jobs.put_slots(connection, self._rules.slot_space, slots)
            row = on_reading.install_row(connection)
            if row is None:
                raise NotFound("the installation has no identity")
            return InstallView(install_id=row["install_id"], timeline=row["timeline"])

        return self._run("install", work)

    def ensure_tenant(self, slug: str) -> TenantId:
        """Find or create a tenant."""
        return self._run("ensure_tenant", lambda c: on_commits.put_tenant(c, slug))

    def ensure_branch(self, tenant: TenantId, name: str) -> BranchId:
        """Find or create an active, empty branch; `main` is the tenant's main branch."""
        return self._run("ensure_branch", lambda c: on_commits.put_branch(c, tenant, name))

    def branch(self, tenant: TenantId, name: str) -> BranchView:
        """Read an active branch.

        Raises:
            NotFound: No active branch has that name.
            NotSigned: Its head, or the commit that readers see, was never committed to it.
        """
        return self._run("branch", lambda c: queries.branch(c, tenant, name, self._checker))

    def commit(self, commit_id: UUID) -> CommitView:
        """Read a commit with its assets in dependency order.

        Raises:
            NotFound: No commit has that id.
        """
        return self._run("commit", lambda c: queries.commit(c, commit_id))

    def commits(self, limit: int = 50, *, branch: BranchId | None = None) -> tuple[CommitView, ...]:
        """List commits, the newest first, without their assets."""
        return self._run("commits", lambda c: queries.commits(c, limit, branch))

    def commit_of_key(self, tenant: TenantId, key: str) -> CommitView:
        """Read the commit created by a request with an idempotency key.

        Raises:
            NotFound: No commit has that key.
        """

        def work(connection: Connection) -> CommitView:
            return queries.commit(
                connection, on_commits.commit_of_key(connection, tenant, key)["commit_id"]
            )

        return self._run("commit_of_key", work)

    def events(self, commit_id: UUID) -> tuple[EventView, ...]:
        """Read the events of a commit and, while it was driving them, of its assets."""
        return self._run("events", lambda c: queries.events(c, commit_id))

    def manifest(self, manifest_id: UUID) -> ManifestView:
        """Read a manifest; it is cached in memory, because it never changes.

        Raises:
            NotFound: No manifest has that id.
        """
        kept = self._manifests
        found = kept.get(manifest_id)
        if found is None:
            found = self._run("manifest", lambda c: queries.manifest(c, manifest_id, self._checker))
            while len(kept) >= _KEPT_MANIFESTS:
                kept.pop(next(iter(kept)), None)
            kept[manifest_id] = found
        return found

    def serving(self, branch: BranchId) -> ServingView | None:
        """Read the commit that readers of a branch see; None before its first promotion."""
        row = self._run("serving", lambda c: on_reading.serving_row(c, branch))
        if row is None:
            return None
        return ServingView(
            commit_id=row["commit_id"],
            serving_seq=row["serving_seq"],
            manifest=self.manifest(row["manifest_id"]),
        )

    def bundle(self, sha256: bytes) -> bytes:
        """Read a bundle, and check its hash and the installation's signature.

        Raises:
            NotFound: The bundle does not exist, or is damaged.
            NotSigned: The installation has not signed the bundle.
        """
        content = self._run("bundle", lambda c: on_reading.bundle_content(c, sha256))
        if content is None or hashlib.sha256(content).digest() != sha256:
            raise NotFound(f"there is no sound bundle {sha256.hex()}")
        return content if self._verifier is None else self._verifier.open(content)

    def bundle_of(self, commit_id: UUID) -> bytes:
        """Read the signed bundle of a commit, or of the commit whose manifest it has.

        Raises:
            NotFound: The bundle does not exist, or is damaged.
            NotSigned: Another bundle, or another commit, was put in its place.
        """
        view = self.commit(commit_id)
        made_by = view if view.manifest_id in {None, commit_id} else self.commit(view.manifest_id)
        if view.bundle_sha256 != made_by.bundle_sha256:
            raise NotSigned(f"commit {commit_id} has not the bundle of its manifest")
        content = self.bundle(made_by.bundle_sha256)
        if content and self._verifier is not None:
            statement = commit_statement(
                made_by.tenant_id, made_by.branch_id, made_by.commit_id, made_by.bundle_sha256
            )
            self._verifier.check(statement, made_by.signature, what=f"commit {made_by.commit_id}")
        return content

    def signed(self, bundle: bytes) -> bytes:
        """Return a bundle in its committed form, with its signature."""
        return bundle if self._signer is None else self._signer.sign(bundle)

    def physical_names(self, tenant: TenantId, assets: Iterable[AssetRef]) -> dict[AssetRef, str]:
        """Return the physical names of those assets that are not destroyed."""
        wanted = sorted(set(assets), key=lambda ref: (ref.kind.value, ref.fingerprint))
        return self._run("physical_names", lambda c: queries.physical_names(c, tenant, wanted))

    def retained_assets(
        self,
        tenant: TenantId,
        *,
        after: int = 0,
        limit: int = 200,
        branches: Collection[str] | None = None,
    ) -> tuple[RetainedAssetView, ...]:
        """List assets that are not destroyed, by id, after a given id.

        With `branches`, only the assets that these branches hold, and only these branches' names.
        """
        return self._run(
            "bank",
            lambda c: queries.retained_assets(
                c, tenant, after=after, limit=limit, branches=branches
            ),
        )

    def held_paths(self, tenant: TenantId, branches: Collection[str]) -> dict[int, frozenset[str]]:
        """Return the assets that branches hold, with their paths on these branches."""
        rows = self._run("held_paths", lambda c: on_reading.held_rows(c, tenant, branches))
        found: dict[int, frozenset[str]] = {}
        for row in rows:
            known = found.get(row["asset_id"], frozenset())
            found[row["asset_id"]] = known | {row["logical_path"]}
        return found

    def first_binders(self, tenant: TenantId) -> dict[str, tuple[str, ...]]:
        """Return the active branches that have bound an endpoint's path, the earliest first."""
        rows = self._run("first_binders", lambda c: on_reading.first_binder_rows(c, tenant))
        found: dict[str, tuple[str, ...]] = {}
        for row in rows:
            path = row["logical_path"]
            found[path] = (*found.get(path, ()), row["name"])
        return found

    def backfill_pace(self) -> float | None:
        """Return the median rows per second of the newest backfills; None before the first."""
        return self._run("backfill_pace", on_reading.backfill_pace)

    def submit_offline(
        self, request_id: UUID, *, manifest_id: UUID, request: Json, actor: str
    ) -> OfflineView:
        """Queue an offline query and pin its manifest; the same id returns the existing query.

        Raises:
            NotPinned: The manifest is not pinned any more.
        """
        signature = self._attest(offline_statement(request_id, manifest_id, actor, request))
        return self._run(
            "submit_offline",
            lambda c: offline_queries.submit(
                c, request_id, manifest_id, request=request, actor=actor, signature=signature
            ),
        )

    def offline(self, request_id: UUID) -> OfflineView:
        """Read an offline query.

        Raises:
            NotFound: No offline query has that id.
        """
        return self._run("offline", lambda c: offline_queries.view(c, request_id))

    def cancel_offline(self, request_id: UUID) -> OfflineState:
        """End an offline query that has not ended; its engine is fenced."""
        return self._run("cancel_offline", lambda c: offline_queries.cancel(c, request_id))

    def record_audit(self, audit: AuditView) -> None:
        """Store an audit's outcome; the same id again changes nothing."""
        self._run("record_audit", lambda c: on_offline.put_audit(c, audit))

    def audits(
        self, limit: int = 50, *, branches: Collection[str] | None = None
    ) -> tuple[AuditView, ...]:
        """List audits, the newest first; with `branches`, only those of their datasets."""
        rows = self._run("audits", lambda c: on_offline.audit_rows(c, limit, branches))
        return tuple(
            AuditView(
                audit_id=row["audit_id"],
                dataset=row["dataset"],
                branch=row["branch"],
                from_us=row["from_us"],
                to_us=row["to_us"],
                result=row["result"],
                success=row["success"],
                at=row["at"],
            )
            for row in rows
        )
