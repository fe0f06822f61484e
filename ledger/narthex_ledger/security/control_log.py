"""The chained log of the control plane: append, read and verify its entries."""

import hashlib
from collections.abc import Mapping

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.model.access_views import BrokenLog, LogEntry, LogHead
from narthex_ledger.model.plans import canonical
from narthex_ledger.model.rows import EntryRow
from narthex_ledger.signing.row_checks import Checker
from narthex_ledger.signing.signatures import attest, entry_statement

START = bytes(32)
"""The previous hash of the first entry of the log."""

_PAGE = 1_000


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


def _link(previous: bytes, number: int, at: str, entry: Json) -> bytes:
    return hashlib.sha256(previous + canonical([number, at, entry])).digest()
