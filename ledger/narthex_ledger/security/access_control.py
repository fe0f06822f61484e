"""Tokens and their rights, the chained control log, and secrets."""

import hashlib
from collections.abc import Mapping

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import access as on_control
from narthex_ledger.errors import LedgerRefused, NotFound
from narthex_ledger.model.access_views import BrokenLog, LogEntry, LogHead, SecretView, TokenView
from narthex_ledger.model.plans import canonical
from narthex_ledger.model.rows import EntryRow, TokenRow
from narthex_ledger.model.views import TenantId
from narthex_ledger.signing.row_checks import Checker
from narthex_ledger.signing.signatures import attest, entry_statement

START = bytes(32)
"""The previous hash of the first entry of the log."""

_PAGE = 1_000


def token_view(row: TokenRow) -> TokenView:
    """Read a token's rights."""
    return TokenView(
        token_id=row.token_id,
        name=row.name,
        scopes=tuple(row.scopes),
        branches=tuple(row.branches),
        tags=tuple(row.tags),
        expires_at=row.expires_at,
        created_by=row.created_by,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


def revoke(connection: Connection, token_id: str) -> None:
    """Revoke a token by its id."""
    if not on_control.revoke(connection, token_id=token_id):
        raise NotFound(f"there is no token `{token_id}`")


def append(connection: Connection, entry: Json) -> LogHead:
    """Append an entry, chained to the one before, and return the new head of the log."""
    chain_end = on_control.lock_chain_end(connection)
    number, previous = chain_end.number + 1, chain_end.sha256
    sha256 = _link(previous, number, chain_end.now.isoformat(), entry)
    signature = attest(connection, entry_statement(number, sha256))
    on_control.append_entry(
        connection,
        {
            "number": number,
            "at": chain_end.now,
            "entry": entry,
            "previous_sha256": previous,
            "sha256": sha256,
            "signature": signature,
        },
    )
    return LogHead(number=number, sha256=sha256, signature=signature)


def verify(
    connection: Connection, heads: Mapping[int, bytes], checker: Checker
) -> BrokenLog | None:
    """Find the first entry that the server did not write so; None if the log is intact.

    Args:
        connection: A transaction of the ledger.
        heads: The hashes of entries by number that were shipped outside the database.
        checker: Checks that the server's key signed each entry.
    """
    after, previous = 0, START
    while rows := on_control.entry_rows(connection, after, _PAGE):
        for row in rows:
            link = _link(previous, after + 1, row.at.isoformat(), row.entry)
            why = _why_broken(row, after + 1, link, heads, checker)
            if why:
                return BrokenLog(number=after + 1, why=why)
            after, previous = after + 1, link
    chain_end = on_control.lock_chain_end(connection)
    if chain_end.number != after or chain_end.sha256 != previous:
        return BrokenLog(number=after + 1, why="missing")
    if max(heads, default=0) > after:
        return BrokenLog(number=after + 1, why="missing, although its hash was shipped")
    return None


def _why_broken(
    row: EntryRow, number: int, link: bytes, heads: Mapping[int, bytes], checker: Checker
) -> str:
    if row.number != number:
        return "missing"
    if row.sha256 != link:
        return "changed"
    if not checker.entry(number, link, row.signature):
        return "not signed by this installation"
    return "" if heads.get(number, link) == link else "not the entry whose hash was shipped"


def entries(connection: Connection, after: int, limit: int) -> tuple[LogEntry, ...]:
    """Read entries in order."""
    return tuple(
        LogEntry(number=row.number, at=row.at, entry=row.entry, sha256=row.sha256)
        for row in on_control.entry_rows(connection, after, limit)
    )


def secret(connection: Connection, tenant: TenantId, name: str) -> SecretView:
    """Read a secret, sealed."""
    row = on_control.find_secret(connection, tenant, name)
    if row is None:
        raise NotFound(f"there is no secret `{name}`")
    return row


def add_secret(
    connection: Connection, tenant: TenantId, name: str, sealed: Json, actor: str
) -> None:
    """Store a new secret, sealed as version 1."""
    if not on_control.insert_secret(connection, tenant, name, sealed, actor):
        raise LedgerRefused(
            f"there is a secret `{name}` already", hint="change it, or delete it first"
        )


def change_secret(
    connection: Connection, tenant: TenantId, name: str, version: int, sealed: Json, actor: str
) -> None:
    """Store another value, sealed as the version after `version`."""
    values: dict[str, Json] = {"sealed": sealed, "changed_by": actor}
    if not on_control.change_secret(connection, tenant, name, version=version, values=values):
        raise LedgerRefused(
            f"secret `{name}` is not at version {version} any more", hint="try again"
        )


def delete_secret(connection: Connection, tenant: TenantId, name: str) -> None:
    """Delete a secret."""
    if not on_control.delete_secret(connection, tenant, name):
        raise NotFound(f"there is no secret `{name}`")


def _link(previous: bytes, number: int, at: str, entry: Json) -> bytes:
    return hashlib.sha256(previous + canonical([number, at, entry])).digest()
