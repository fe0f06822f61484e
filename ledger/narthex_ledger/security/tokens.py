"""API tokens: their rights, revoking and rotating them."""

import datetime as dt
import hashlib

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.errors import NotFound, WrongState
from narthex_ledger.model.access_views import TokenSuccessor, TokenView
from narthex_ledger.model.rows import LockedTokenRow, TokenRow
from narthex_ledger.signing.row_checks import Checker
from narthex_ledger.signing.signatures import attest, token_statement


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


def rotate(
    connection: Connection, token_id: str, successor: TokenSuccessor, *, checker: Checker
) -> tuple[TokenView, TokenView]:
    """Store the successor of a token, and let the token expire after the overlap.

    The signature of the token is checked first, because that of its successor would hide a row
    that was inserted or changed.
    """
    row = on_control.lock_token(connection, token_id)
    if row is None or not row.scopes:  # the key of a browser's session has none
        raise NotFound(f"there is no token `{token_id}`")
    old = token_view(row)
    if old.revoked_at is not None:
        raise WrongState(f"token `{token_id}` was revoked; create another one")
    if old.expires_at is not None and old.expires_at <= row.now:
        raise WrongState(f"token `{token_id}` has expired; create another one")
    checker.token(row.token_sha256, old, row.signature)
    ending = attrs.evolve(old, expires_at=_earlier(old.expires_at, row.now + successor.overlap))
    new = TokenView(
        token_id=successor.token_id,
        name=old.name,
        scopes=old.scopes,
        branches=old.branches,
        tags=old.tags,
        expires_at=row.now + _lifetime(row, successor.greatest_lifetime),
        created_by=successor.actor,
    )
    for digest, view in (
        (row.token_sha256, ending),
        (hashlib.sha256(successor.token.encode()).digest(), new),
    ):
        signature = attest(connection, token_statement(digest, view))
        on_control.put_token(connection, digest, view, signature=signature)
    return ending, new


def _earlier(one: dt.datetime | None, other: dt.datetime) -> dt.datetime:
    return other if one is None else min(one, other)


def _lifetime(row: LockedTokenRow, greatest: dt.timedelta) -> dt.timedelta:
    """Return how long a token was to be valid; its signature does not cover its creation."""
    if row.expires_at is None:
        return greatest
    return min(row.expires_at - row.created_at, greatest)
