"""Check the signatures of rows that are read to be run or to answer queries."""

from collections.abc import Iterable

import attrs

from narthex_ledger.errors import NotSigned
from narthex_ledger.model.access_views import TokenView
from narthex_ledger.model.offline_views import TrainingSetView
from narthex_ledger.model.rows import (
    AssetRow,
    BundleRow,
    HeadRow,
    ManifestRow,
    NeededAssetRow,
    OfflineQueryRow,
    SignedAssetRow,
)
from narthex_ledger.model.views import BranchView
from narthex_ledger.signing.signatures import (
    Verifier,
    asset_statement,
    bundle_statement,
    content_of,
    entry_statement,
    head_statement,
    manifest_statement,
    needs_statement,
    offline_statement,
    token_statement,
    training_set_statement,
)


@attrs.frozen(kw_only=True)
class Checker:
    """Checks rows against their signatures; without a verifier (display, tests) it checks nothing.

    Each method raises NotSigned.
    """

    verifier: Verifier | None

    def bundle(self, row: BundleRow) -> bytes:
        """Return the content of a bundle, or refuse one that was not signed."""
        if self.verifier is None:
            return row.content
        if row.signature is None or not row.content:
            return self.verifier.open(row.content)
        self.verifier.check(bundle_statement(row.sha256), row.signature, what="a bundle")
        return content_of(row.content)

    def asset(self, row: SignedAssetRow) -> None:
        """Refuse an asset whose spec or name differs from the signed one."""
        if self.verifier is None:
            return
        statement = asset_statement(
            row.tenant_id,
            row.kind,
            row.fingerprint,
            physical_name=row.physical_name,
            spec=row.spec,
        )
        self.verifier.check(statement, row.signature, what=_named(row))

    def needs(self, row: AssetRow, needed: Iterable[NeededAssetRow]) -> None:
        """Refuse an asset whose needs or their roles differ from the signed ones."""
        if self.verifier is None:
            return
        needs = ((one.role, one.kind, one.fingerprint) for one in needed)
        statement = needs_statement(row.tenant_id, row.physical_name, needs)
        signature = row.needs_signature
        self.verifier.check(statement, signature, what=f"what {_named(row)} needs")

    def manifest(self, row: ManifestRow, bound: Iterable[tuple[str, str]]) -> None:
        """Refuse a manifest whose content or bindings differ from the signed ones."""
        if self.verifier is None:
            return
        statement = manifest_statement(
            row.tenant_id,
            row.manifest_id,
            row.bundle_sha256,
            content=row.content,
            bound=bound,
        )
        what = f"manifest {row.manifest_id}"
        self.verifier.check(statement, row.signature, what=what)

    def token(self, token_sha256: bytes, token: TokenView, signature: bytes | None) -> None:
        """Refuse a token whose rights differ from the signed ones."""
        if self.verifier is not None:
            what = f"token {token.token_id}"
            self.verifier.check(token_statement(token_sha256, token), signature, what=what)

    def offline(self, row: OfflineQueryRow) -> None:
        """Refuse an offline query whose request differs from the signed one."""
        if self.verifier is None:
            return
        statement = offline_statement(row.request_id, row.manifest_id, row.actor, row.request)
        what = f"offline query {row.request_id}"
        self.verifier.check(statement, row.signature, what=what)

    def training_set(self, view: TrainingSetView) -> None:
        """Refuse a training set that differs from the signed one."""
        if self.verifier is not None:
            what = f"training set `{view.name}`"
            self.verifier.check(training_set_statement(view), view.signature, what=what)

    def head(self, branch: BranchView, row: HeadRow) -> None:
        """Refuse a commit as the head of a branch that it was not committed to."""
        if self.verifier is None:
            return
        statement = head_statement(
            branch.tenant_id,
            branch.branch_id,
            branch.name,
            commit_id=row.commit_id,
            manifest_id=row.manifest_id,
        )
        what = f"commit {row.commit_id} as the head of branch `{branch.name}`"
        self.verifier.check(statement, row.head_signature, what=what)

    def entry(self, number: int, sha256: bytes, signature: bytes | None) -> bool:
        """Whether an entry of the control log is signed with its number and its chained hash."""
        if self.verifier is None:
            return True
        try:
            statement = entry_statement(number, sha256)
            self.verifier.check(statement, signature, what=f"entry {number}")
        except NotSigned:
            return False
        return True


UNCHECKED = Checker(verifier=None)
"""Checks nothing, for assets that are only displayed, and neither run nor read."""


def _named(row: SignedAssetRow) -> str:
    return f"asset {row.physical_name}"
