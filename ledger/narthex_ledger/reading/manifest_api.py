"""The parts of the ledger for readers: manifests and bundles."""

import hashlib
from uuid import UUID
from weakref import WeakValueDictionary

import attrs

from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.errors import NotFound, NotSigned
from narthex_ledger.model.views import BranchId, CommitView, ManifestView, ServingView
from narthex_ledger.reading import queries
from narthex_ledger.reading.resolved_assets import KnownAssets
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import commit_statement

_CACHED_MANIFESTS = 64


@attrs.frozen
class Manifests:
    """Manifests, which never change.

    A manifest shares most assets with the one before it, so assets are read and checked once, as
    long as a manifest in memory has them.

    Attributes:
        assets: Those assets.
    """

    _db: LedgerDatabase
    assets: KnownAssets = attrs.field(factory=WeakValueDictionary, init=False)
    _cached: dict[UUID, ManifestView] = attrs.field(factory=dict, init=False)

    def get(self, manifest_id: UUID) -> ManifestView:
        """Read a manifest; it is cached in memory, because it never changes.

        Raises:
            NotFound: No manifest has that id.
        """
        cached = self._cached
        manifest = cached.get(manifest_id)
        if manifest is None:
            checker = self._db.checker
            manifest = self._db.run(
                "manifest", lambda c: queries.manifest(c, manifest_id, checker, self.assets)
            )()
            while len(cached) >= _CACHED_MANIFESTS:
                cached.pop(next(iter(cached)), None)
            cached[manifest_id] = manifest
        return manifest

    def pinned(self) -> frozenset[UUID]:
        """Read the ids of manifests with a pin: heads, served, retained, being deployed or queried.

        The id of a manifest is that of the commit that made it.
        """
        return self._db.run("pinned_manifests", on_pins.pinned_manifests)

    def serving(self, branch: BranchId) -> ServingView | None:
        """Read the commit that readers of a branch see; None before its first promotion."""
        row = self._db.run("serving", lambda c: on_reading.serving_row(c, branch))
        if row is None:
            return None
        return ServingView(
            commit_id=row.commit_id,
            serving_seq=row.serving_seq,
            manifest=self.get(row.manifest_id),
        )


@attrs.frozen
class Bundles:
    """Bundles, stored by content and signed."""

    _db: LedgerDatabase

    def get(self, sha256: bytes) -> bytes:
        """Read a bundle, and check its hash and the installation's signature.

        Raises:
            NotFound: The bundle does not exist, or is damaged.
            NotSigned: The installation has not signed the bundle.
        """
        row = self._db.run("bundle", lambda c: on_reading.bundle_row(c, sha256))
        if row is None or hashlib.sha256(row.content).digest() != sha256:
            raise NotFound(f"bundle {sha256.hex()} does not exist, or is damaged")
        return self._db.checker.bundle(row)

    def of_commit(self, commit_id: UUID) -> bytes:
        """Read the signed bundle of a commit, or of the commit whose manifest it has.

        Raises:
            NotFound: The bundle does not exist, or is damaged.
            NotSigned: Another bundle, or another commit, was put in its place.
        """
        view = self._commit(commit_id)
        made_by = view if view.manifest_id in {None, commit_id} else self._commit(view.manifest_id)
        if view.bundle_sha256 != made_by.bundle_sha256:
            raise NotSigned(f"commit {commit_id} and its manifest have different bundles")
        content = self.get(made_by.bundle_sha256)
        if content and self._db.verifier is not None:
            statement = commit_statement(
                made_by.tenant_id, made_by.branch_id, made_by.commit_id, made_by.bundle_sha256
            )
            self._db.verifier.check(
                statement, made_by.signature, what=f"commit {made_by.commit_id}"
            )
        return content

    def sign(self, bundle: bytes) -> bytes:
        """Return a bundle in its committed form, with its signature."""
        return bundle if self._db.signer is None else self._db.signer.sign(bundle)

    def _commit(self, commit_id: UUID) -> CommitView:
        return self._db.run("commit", lambda c: queries.commit(c, commit_id))()
