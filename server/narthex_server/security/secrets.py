"""Routes of the secrets that code and connectors name: stored sealed, in the ledger alone."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from narthex._analysis.policy import load_policy, missing_rules
from narthex._base import Json
from narthex._runtime import SECRET_NAME
from narthex.errors import PolicyInvalid
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.request_identity import actor_of
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

GREATEST_VALUE = 65_536


class SecretCall(BaseModel):
    """A secret's value."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    value: SecretStr = Field(max_length=GREATEST_VALUE)


@router.get("/secrets")
def names(request: Request) -> dict[str, Json]:
    """List the names of all secrets, without values."""
    services: Services = request.app.state.services
    return {"secrets": [*services.ledger.secrets.names(services.tenant)]}


@router.get("/secret/{name:path}")
def read(name: str, request: Request) -> dict[str, Json]:
    """Return a secret's value."""
    services: Services = request.app.state.services
    return {"value": services.secrets.read(name)}


@router.post("/secret/{name:path}")
def add(name: str, call: SecretCall, request: Request) -> dict[str, Json]:
    """Store a new secret."""
    services = _keeping(request)
    if not SECRET_NAME.fullmatch(name):
        raise InvalidRequest("invalid name of a secret")
    value = call.value.get_secret_value()
    version = services.secrets.add(name, value, actor=actor_of(request))
    return {"name": name, "version": version, "hint": _hint(services, name)}


@router.patch("/secret/{name:path}")
def change(name: str, call: SecretCall, request: Request) -> dict[str, Json]:
    """Replace the value of a secret."""
    services = _keeping(request)
    value = call.value.get_secret_value()
    version = services.secrets.change(name, value, actor=actor_of(request))
    return {"name": name, "version": version, "hint": _hint(services, name)}


@router.delete("/secret/{name:path}")
def delete(name: str, request: Request) -> dict[str, Json]:
    """Delete a secret."""
    services: Services = request.app.state.services
    services.ledger.secrets.delete(services.tenant, name)
    return {"name": name}


def _hint(services: Services, name: str) -> str:
    """Return the policy rule without which nothing may use a secret; empty if it exists."""
    try:
        return missing_rules(load_policy(services.settings.policy_file), name)
    except PolicyInvalid as error:
        return str(error)


def _keeping(request: Request) -> Services:
    """Return the services; refuse to store a copy where a manager mounts the secrets."""
    services: Services = request.app.state.services
    if services.settings.secrets_dir:
        raise Conflicting("an external secret manager provides the secrets; add it there")
    return services
