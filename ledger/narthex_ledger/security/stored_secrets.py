"""Sealed secrets: read, store, change and delete them."""

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.errors import LedgerRefused, NotFound
from narthex_ledger.model.access_views import SecretView
from narthex_ledger.model.views import TenantId


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
