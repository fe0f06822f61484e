"""API tokens: their rights, and revoking them."""

from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.errors import NotFound
from narthex_ledger.model.access_views import TokenView
from narthex_ledger.model.rows import TokenRow


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
