"""Statements on the signatures of rows of all kinds, to replace them by those of another key."""

from collections.abc import Collection, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from narthex_ledger.db.schema import (
    API_TOKEN,
    ASSET,
    ASSET_DEP,
    BINDING,
    BRANCH,
    BUNDLE,
    CONTROL_LOG,
    DEPLOY_COMMIT,
    ERASURE,
    MANIFEST,
    OFFLINE_QUERY,
    TRAINING_SET,
)

_MARK: Final = b"nxs1"
_FIRST: Final = 5
_KEY_ID_BYTES: Final = 8
_HEAD_BYTES: Final = 76
"""The form of signatures in `signing.signatures`: a mark, the id of the key, and 64 bytes."""

_PLACES: Final = {
    "bundle": (BUNDLE, "signature", "sha256"),
    "commit": (DEPLOY_COMMIT, "signature", "commit_id"),
    "head of a branch": (DEPLOY_COMMIT, "head_signature", "commit_id"),
    "manifest": (MANIFEST, "signature", "manifest_id"),
    "asset": (ASSET, "signature", "asset_id"),
    "needs of an asset": (ASSET, "needs_signature", "asset_id"),
    "token": (API_TOKEN, "signature", "token_sha256"),
    "offline query": (OFFLINE_QUERY, "signature", "request_id"),
    "training set": (TRAINING_SET, "signature", "training_set_id"),
    "erasure": (ERASURE, "signature", "erasure_id"),
    "control log entry": (CONTROL_LOG, "signature", "number"),
}

KINDS: Final = tuple(_PLACES)
"""The kinds of signed rows."""


def allow_signing(connection: Connection) -> None:
    """Let this transaction replace signatures of rows that are never changed otherwise."""
    connection.execute(sa.text("SELECT set_config('narthex.signing', 'on', true)"))


def count_by_key(connection: Connection, kind: str) -> dict[bytes, int]:
    """Count the signed rows of a kind by the id of the key; locks nothing."""
    table, *_ = _PLACES[kind]
    key_id = sa.func.substring(_signature(kind), _FIRST, _KEY_ID_BYTES)
    statement = sa.select(key_id, sa.func.count()).select_from(table)
    counted = connection.execute(statement.where(_is_signed(kind)).group_by(key_id))
    return {bytes(found): rows for found, rows in counted}


def signed_rows(
    connection: Connection, kind: str, *, by: Collection[bytes], after: object, limit: int
) -> Sequence[RowMapping]:
    """Lock rows of a kind that some keys have signed FOR NO KEY UPDATE, in the order of their keys.

    Each row has all columns, and further `row_key`, `signed`, and of heads `branch_name`.
    """
    table, _, key = _PLACES[kind]
    key_id = sa.func.substring(_signature(kind), _FIRST, _KEY_ID_BYTES)
    statement = sa.select(table, table.c[key].label("row_key"), _signature(kind).label("signed"))
    if kind == "head of a branch":
        statement = statement.add_columns(BRANCH.c.name.label("branch_name")).join(
            BRANCH, BRANCH.c.branch_id == DEPLOY_COMMIT.c.branch_id
        )
    if after is not None:
        statement = statement.where(table.c[key] > after)
    found = statement.where(_is_signed(kind), key_id.in_(list(by))).order_by(table.c[key])
    locked = found.limit(limit).with_for_update(key_share=True, of=table)
    return connection.execute(locked).mappings().all()


def replace_signatures(
    connection: Connection, kind: str, signatures: Sequence[tuple[object, bytes]]
) -> None:
    """Replace the signatures of rows that are locked, by key."""
    if not signatures:
        return
    table, column, key = _PLACES[kind]
    statement = (
        sa.update(table)
        .where(table.c[key] == sa.bindparam("of_row"))
        .values({column: sa.bindparam("by_key")})
    )
    connection.execute(
        statement, [{"of_row": row, "by_key": signature} for row, signature in signatures]
    )


def needs_of(
    connection: Connection, asset_ids: Collection[int]
) -> dict[int, list[tuple[str, str, bytes]]]:
    """Read the role, the kind and the fingerprint of each need of assets."""
    statement = (
        sa.select(ASSET_DEP.c.asset_id, ASSET_DEP.c.role, ASSET.c.kind, ASSET.c.fingerprint)
        .join(ASSET, ASSET.c.asset_id == ASSET_DEP.c.needs_asset_id)
        .where(ASSET_DEP.c.asset_id.in_(list(asset_ids)))
    )
    found: dict[int, list[tuple[str, str, bytes]]] = {asset_id: [] for asset_id in asset_ids}
    for asset_id, role, kind, fingerprint in connection.execute(statement):
        found[asset_id].append((role, kind, bytes(fingerprint)))
    return found


def bindings_of(connection: Connection, manifest_id: object) -> list[tuple[str, str]]:
    """Read the path and the physical name of each asset that a manifest binds."""
    statement = (
        sa.select(BINDING.c.logical_path, ASSET.c.physical_name)
        .join(ASSET, ASSET.c.asset_id == BINDING.c.asset_id)
        .where(BINDING.c.manifest_id == manifest_id)
    )
    return [(path, name) for path, name in connection.execute(statement)]


def _signature(kind: str) -> sa.ColumnElement[bytes]:
    table, column, _ = _PLACES[kind]
    if kind == "bundle":  # its content begins with the signature of the key that it was made with
        return sa.func.coalesce(table.c[column], sa.func.substring(table.c.content, 1, _HEAD_BYTES))
    signature: sa.ColumnElement[bytes] = table.c[column]
    return signature


def _is_signed(kind: str) -> sa.ColumnElement[bool]:
    signature = _signature(kind)
    return sa.and_(
        sa.func.octet_length(signature) == _HEAD_BYTES,
        sa.func.substring(signature, 1, len(_MARK)) == _MARK,
    )
