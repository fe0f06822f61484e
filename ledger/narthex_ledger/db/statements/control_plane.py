"""Statements on tokens, on the chained log of the control plane, and on sealed values."""

import datetime as dt
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import find_row, row_of, rows_of
from narthex_ledger.db.schema import API_TOKEN, CONNECTION, CONTROL_LOG, CONTROL_LOG_TIP, SECRET
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.access_views import SealedView, TokenView
from narthex_ledger.model.rows import ChainEndRow, EntryRow, LockedTokenRow, TokenRow
from narthex_ledger.model.views import TenantId

USED_EVERY = dt.timedelta(minutes=1)
"""The precision of a token's last use, so that not every call writes."""

SEALED: Final = {"secret": SECRET, "connection": CONNECTION}
"""The tables of sealed values, by the word for one of them."""


def expiry(connection: Connection, lifetime: dt.timedelta | None) -> dt.datetime | None:
    """Return the instant, by the database's clock, at which a token with a lifetime expires."""
    if lifetime is None:
        return None
    return connection.execute(sa.select(NOW + lifetime)).scalar_one()


def put_token(
    connection: Connection, token_sha256: bytes, token: TokenView, *, signature: bytes | None
) -> None:
    """Insert a token's hash and rights, or change the rights."""
    values = {
        "token_sha256": token_sha256,
        "token_id": token.token_id,
        "name": token.name,
        "scopes": list(token.scopes),
        "branches": list(token.branches),
        "tags": list(token.tags),
        "expires_at": token.expires_at,
        "created_by": token.created_by,
        "signature": signature,
    }
    row = insert(API_TOKEN).values(**values)
    connection.execute(row.on_conflict_do_update(index_elements=["token_sha256"], set_=values))


def token_row(connection: Connection, token_sha256: bytes) -> TokenRow | None:
    """Find a token that is neither expired nor revoked, and record its use."""
    statement = sa.select(API_TOKEN).where(
        API_TOKEN.c.token_sha256 == token_sha256,
        API_TOKEN.c.revoked_at.is_(None),
        sa.or_(API_TOKEN.c.expires_at.is_(None), API_TOKEN.c.expires_at > NOW),
    )
    row = find_row(TokenRow, connection.execute(statement))
    if row is not None:
        used = sa.update(API_TOKEN).where(
            API_TOKEN.c.token_sha256 == token_sha256,
            sa.or_(API_TOKEN.c.last_used_at.is_(None), API_TOKEN.c.last_used_at < NOW - USED_EVERY),
        )
        connection.execute(used.values(last_used_at=NOW))
    return row


def lock_token(connection: Connection, token_id: str) -> LockedTokenRow | None:
    """Lock a token FOR UPDATE, and read the time."""
    statement = sa.select(API_TOKEN, NOW.label("now")).where(API_TOKEN.c.token_id == token_id)
    return find_row(LockedTokenRow, connection.execute(statement.with_for_update()))


def token_rows(connection: Connection) -> tuple[TokenRow, ...]:
    """List all tokens, the newest first; locks nothing."""
    statement = sa.select(API_TOKEN).order_by(API_TOKEN.c.created_at.desc(), API_TOKEN.c.token_id)
    return rows_of(TokenRow, connection.execute(statement))


def revoke(connection: Connection, **which: object) -> int:
    """Revoke tokens; return how many matched. The first instant of revocation is kept."""
    revoked = (
        sa.update(API_TOKEN)
        .where(*(API_TOKEN.c[name] == value for name, value in which.items()))
        .values(revoked_at=sa.func.coalesce(API_TOKEN.c.revoked_at, NOW), signature=None)
    )
    return connection.execute(revoked).rowcount


def lock_chain_end(connection: Connection) -> ChainEndRow:
    """Lock the end of the chained log FOR UPDATE and read the time: appends are serialized."""
    statement = sa.select(CONTROL_LOG_TIP, NOW.label("now")).with_for_update()
    return row_of(ChainEndRow, connection.execute(statement))


def append_entry(connection: Connection, entry: dict[str, object]) -> None:
    """Append to the chained log, whose end is locked, and move its end."""
    connection.execute(sa.insert(CONTROL_LOG).values(**entry))
    connection.execute(
        sa.update(CONTROL_LOG_TIP).values(number=entry["number"], sha256=entry["sha256"])
    )


def entry_rows(connection: Connection, after: int, limit: int) -> tuple[EntryRow, ...]:
    """Read entries of the chained log in order; locks nothing."""
    statement = (
        sa.select(CONTROL_LOG)
        .where(CONTROL_LOG.c.number > after)
        .order_by(CONTROL_LOG.c.number)
        .limit(limit)
    )
    return rows_of(EntryRow, connection.execute(statement))


def insert_sealed(
    connection: Connection,
    kind: str,
    tenant_id: TenantId,
    name: str,
    sealed: Json,
    actor: str,
) -> bool:
    """Insert a sealed value at version 1; false when the name exists."""
    row = (
        insert(SEALED[kind])
        .values(tenant_id=tenant_id, name=name, version=1, sealed=sealed, changed_by=actor)
        .on_conflict_do_nothing()
    )
    return connection.execute(row).rowcount == 1


def find_sealed(
    connection: Connection, kind: str, tenant_id: TenantId, name: str
) -> SealedView | None:
    """Find a sealed value; locks nothing."""
    table = SEALED[kind]
    statement = sa.select(table).where(table.c.tenant_id == tenant_id, table.c.name == name)
    return find_row(SealedView, connection.execute(statement))


def sealed_names(connection: Connection, kind: str, tenant_id: TenantId) -> tuple[str, ...]:
    """List the names of a tenant's sealed values, sorted; locks nothing."""
    table = SEALED[kind]
    statement = sa.select(table.c.name).where(table.c.tenant_id == tenant_id).order_by(table.c.name)
    return tuple(connection.execute(statement).scalars())


def change_sealed(
    connection: Connection,
    kind: str,
    tenant_id: TenantId,
    name: str,
    *,
    version: int,
    values: dict[str, Json],
) -> bool:
    """Advance a sealed value from this version to the next; false when the version differs."""
    table = SEALED[kind]
    changed = (
        sa.update(table)
        .where(table.c.tenant_id == tenant_id, table.c.name == name, table.c.version == version)
        .values(version=version + 1, changed_at=NOW, **values)
    )
    return connection.execute(changed).rowcount == 1


def delete_sealed(connection: Connection, kind: str, tenant_id: TenantId, name: str) -> bool:
    """Delete a sealed value; false when there was none."""
    table = SEALED[kind]
    gone = sa.delete(table).where(table.c.tenant_id == tenant_id, table.c.name == name)
    return connection.execute(gone).rowcount == 1


def seal_again(
    connection: Connection,
    kind: str,
    tenant_id: TenantId,
    name: str,
    *,
    old: Json,
    sealed: Json,
) -> bool:
    """Replace the sealed form of a value at its version; false if it is another one by now."""
    table = SEALED[kind]
    changed = (
        sa.update(table)
        .where(table.c.tenant_id == tenant_id, table.c.name == name, table.c.sealed == old)
        .values(sealed=sealed)
    )
    return connection.execute(changed).rowcount == 1
