"""The part of the ledger for signing all of its rows again, with another key."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Final

import attrs
from sqlalchemy.engine import Connection, RowMapping

from narthex._base import Json
from narthex_ledger.db import signed_rows as on_signatures
from narthex_ledger.errors import NotSigned
from narthex_ledger.model.access_views import RenewedSignatures, TokenView
from narthex_ledger.model.offline_views import TrainingSetView
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import (
    Signer,
    Verifier,
    asset_statement,
    bundle_statement,
    commit_statement,
    entry_statement,
    erasure_statement,
    head_statement,
    manifest_statement,
    needs_statement,
    offline_statement,
    token_statement,
    training_set_statement,
)

SIGNED_KINDS: Final = on_signatures.KINDS
"""The kinds of signed rows, in the order in which they are signed again."""

_BATCH: Final = 200


@attrs.frozen
class Signatures:
    """The signatures of the ledger's rows; each batch is one transaction, and may be repeated."""

    _db: LedgerDatabase

    def count(self) -> dict[str, dict[bytes, int]]:
        """Count the rows of each kind by the id of the key that signed them."""
        return self._db.run(
            "count_signatures",
            lambda c: {kind: on_signatures.count_by_key(c, kind) for kind in SIGNED_KINDS},
        )

    def renew(self, kind: str, *, by: Collection[bytes]) -> RenewedSignatures:
        """Sign the rows of a kind again that the keys of these ids have signed.

        A row that does not match its signature is not signed again.

        Raises:
            ValueError: The ledger was opened without a key.
        """
        signer, verifier = self._db.signer, self._db.verifier
        if signer is None or verifier is None:
            raise ValueError("a ledger without a key signs nothing")
        return self._through(kind, by=by, signer=signer, verifier=verifier)

    def valid(self, kind: str, *, by: Collection[bytes]) -> RenewedSignatures:
        """Count the rows of a kind that match a signature of these keys; changes nothing."""
        verifier = self._db.verifier
        if verifier is None:
            raise ValueError("a ledger without a key verifies nothing")
        return self._through(kind, by=by, signer=None, verifier=verifier)

    def _through(
        self, kind: str, *, by: Collection[bytes], signer: Signer | None, verifier: Verifier
    ) -> RenewedSignatures:
        """Go through the rows of a kind, one transaction for each batch."""
        name = f"{'valid' if signer is None else 'renew'}_signatures_{kind}"
        found, after = RenewedSignatures(), None
        while True:
            work = functools.partial(
                _renew, kind=kind, by=by, after=after, signer=signer, verifier=verifier
            )
            after, batch = self._db.run(name, work)
            found = found + batch
            if after is None:
                return found


def _renew(
    connection: Connection,
    *,
    kind: str,
    by: Collection[bytes],
    after: object,
    signer: Signer | None,
    verifier: Verifier,
) -> tuple[object, RenewedSignatures]:
    """Sign one batch of rows again; return the key of its last row, or None after the last batch.

    Without a signer the rows are only verified.
    """
    rows = on_signatures.signed_rows(connection, kind, by=by, after=after, limit=_BATCH)
    signatures: list[tuple[object, bytes]] = []
    refused: list[str] = []
    statements = _statements(connection, kind, rows)
    for row, statement in zip(rows, statements, strict=True):
        what = f"{kind} {_shown(row['row_key'])}"
        try:
            if kind == "bundle" and row["signature"] is None:
                verifier.open(bytes(row["content"]))
            else:
                verifier.check(statement, bytes(row["signed"]), what=what)
        except NotSigned:
            refused.append(what)
            continue
        signed = b"" if signer is None else signer.attest(statement)
        signatures.append((row["row_key"], signed))
    if signer is not None:
        on_signatures.allow_signing(connection)
        on_signatures.replace_signatures(connection, kind, signatures)
    batch = RenewedSignatures(
        rows=len(signatures),
        first=tuple(f"{kind} {_shown(key)}" for key, _ in signatures[:3]),
        refused=tuple(refused),
    )
    return (rows[-1]["row_key"] if len(rows) == _BATCH else None), batch


def _statements(connection: Connection, kind: str, rows: Collection[RowMapping]) -> list[Json]:
    if kind == "needs of an asset":
        needs = on_signatures.needs_of(connection, [row["asset_id"] for row in rows])
        return [
            needs_statement(row["tenant_id"], row["physical_name"], needs[row["asset_id"]])
            for row in rows
        ]
    if kind == "manifest":
        return [
            manifest_statement(
                row["tenant_id"],
                row["manifest_id"],
                bytes(row["bundle_sha256"]),
                content=row["content"],
                bound=on_signatures.bindings_of(connection, row["manifest_id"]),
            )
            for row in rows
        ]
    return [_STATEMENTS[kind](row) for row in rows]


def _asset(row: RowMapping) -> Json:
    return asset_statement(
        row["tenant_id"],
        row["kind"],
        bytes(row["fingerprint"]),
        physical_name=row["physical_name"],
        spec=row["spec"],
    )


def _head(row: RowMapping) -> Json:
    return head_statement(
        row["tenant_id"],
        row["branch_id"],
        row["branch_name"],
        commit_id=row["commit_id"],
        manifest_id=row["manifest_id"],
    )


def _token(row: RowMapping) -> Json:
    view = TokenView(
        token_id=row["token_id"],
        name=row["name"],
        scopes=tuple(row["scopes"]),
        branches=tuple(row["branches"]),
        tags=tuple(row["tags"]),
        expires_at=row["expires_at"],
        created_by=row["created_by"],
    )
    return token_statement(bytes(row["token_sha256"]), view)


def _training_set(row: RowMapping) -> Json:
    return training_set_statement(
        TrainingSetView(
            training_set_id=row["training_set_id"],
            branch=row["branch"],
            name=row["name"],
            request_id=row["request_id"],
            commit_id=row["commit_id"],
            content_sha256=bytes(row["content_sha256"]),
            data_sha256=bytes(row["data_sha256"]),
            rows=row["rows"],
            description=row["description"],
            created_at=row["created_at"],
        )
    )


_STATEMENTS: Final[Mapping[str, Callable[[RowMapping], Json]]] = {
    "bundle": lambda row: bundle_statement(bytes(row["sha256"])),
    "commit": lambda row: commit_statement(
        row["tenant_id"], row["branch_id"], row["commit_id"], bytes(row["bundle_sha256"])
    ),
    "head of a branch": _head,
    "asset": _asset,
    "token": _token,
    "offline query": lambda row: offline_statement(
        row["request_id"], row["manifest_id"], row["actor"], row["request"]
    ),
    "training set": _training_set,
    "erasure": lambda row: erasure_statement(row["certificate"]),
    "control log entry": lambda row: entry_statement(row["number"], bytes(row["sha256"])),
}


def _shown(key: object) -> str:
    return bytes(key).hex()[:16] if isinstance(key, bytes | memoryview) else str(key)
