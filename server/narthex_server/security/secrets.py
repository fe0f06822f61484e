"""Routes of the secrets that code and connectors name: stored sealed, in the ledger alone."""

from pathlib import Path

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from typing_extensions import TypedDict

from narthex._analysis.policy import load_policy, missing_rules
from narthex._runtime import SECRET_NAME, SecretFiles
from narthex.errors import PolicyInvalid
from narthex.settings import Settings
from narthex_ledger import LedgerError, NotOpenedError
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import (
    LedgerDep,
    SecretsDep,
    Services,
    SettingsDep,
    TenantDep,
)
from narthex_server.web.plain_routes import PlainRoute


class SecretUnreadable(Exception):
    """A secret that a file of the operator names cannot be read; the text says why."""


router = APIRouter(
    route_class=PlainRoute,
    dependencies=[requires(Right.SECRETS, extent=Extent.INSTALLATION)],
)

GREATEST_VALUE = 65_536


class SecretCall(BaseModel):
    """A secret's value."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    value: SecretStr = Field(max_length=GREATEST_VALUE)


class SecretNames(TypedDict):
    """The names of all secrets."""

    secrets: list[str]


class SecretValue(TypedDict):
    """A secret's value."""

    value: str


class StoredSecret(TypedDict):
    """A secret that was stored.

    Attributes:
        hint: The policy rule without which nothing may use the secret; empty if it exists.
    """

    name: str
    version: int
    hint: str


class DeletedSecret(TypedDict):
    """A secret that was deleted."""

    name: str


@router.get("/secrets")
def names(ledger: LedgerDep, tenant: TenantDep) -> SecretNames:
    """List the names of all secrets, without values."""
    return {"secrets": [*ledger.secrets.names(tenant)]}


@router.get("/secret/{name:path}")
def read(name: str, secrets: SecretsDep) -> SecretValue:
    """Return a secret's value."""
    return {"value": secrets.read(name)}


@router.post("/secret/{name:path}")
def add(
    name: str, call: SecretCall, secrets: SecretsDep, settings: SettingsDep, caller: IdentityDep
) -> StoredSecret:
    """Store a new secret."""
    _require_own_store(settings)
    if not SECRET_NAME.fullmatch(name):
        raise InvalidRequest("invalid name of a secret")
    version = secrets.add(name, call.value.get_secret_value(), actor=caller.actor)
    return {"name": name, "version": version, "hint": _hint(settings.policy_file, name)}


@router.patch("/secret/{name:path}")
def change(
    name: str, call: SecretCall, secrets: SecretsDep, settings: SettingsDep, caller: IdentityDep
) -> StoredSecret:
    """Replace the value of a secret."""
    _require_own_store(settings)
    version = secrets.change(name, call.value.get_secret_value(), actor=caller.actor)
    return {"name": name, "version": version, "hint": _hint(settings.policy_file, name)}


@router.delete("/secret/{name:path}")
def delete(name: str, ledger: LedgerDep, tenant: TenantDep) -> DeletedSecret:
    """Delete a secret."""
    ledger.secrets.delete(tenant, name)
    return {"name": name}


def stored_secret(services: Services, name: str) -> str:
    """Return the value of a secret that a file of the operator names.

    Raises:
        SecretUnreadable: There is none, or it cannot be opened.
    """
    mounted = services.settings.secrets_dir
    try:
        found = SecretFiles(Path(mounted))(name) if mounted else services.secrets.read(name)
    except (LedgerError, NotOpenedError) as error:
        raise SecretUnreadable(f"the secret `{name}` cannot be read: {error}") from None
    if found is None:
        raise SecretUnreadable(f"there is no secret `{name}`")
    return found


def _hint(policy_file: Path, name: str) -> str:
    """Return the policy rule without which nothing may use a secret; empty if it exists."""
    try:
        return missing_rules(load_policy(policy_file), name)
    except PolicyInvalid as error:
        return str(error)


def _require_own_store(settings: Settings) -> None:
    """Refuse to store a copy where a manager mounts the secrets.

    Raises:
        Conflicting: A manager does.
    """
    if settings.secrets_dir:
        raise Conflicting("an external secret manager provides the secrets; add it there")
