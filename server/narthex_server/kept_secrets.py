"""Secrets that code and connectors name: sealed in the ledger, delivered to the jobs here.

What stands in the ledger is the copy that is versioned and says who changed it; jobs read files.
"""

import re
from contextlib import suppress

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from narthex.errors import SecretMissing
from narthex.records import Json
from narthex.secret_files import SecretFiles
from narthex_server.asking import actor_of
from narthex_server.routes import PlainRoute
from narthex_server.services import Services

router = APIRouter(route_class=PlainRoute)

GREATEST_VALUE = 65_536
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}")


class SecretCall(BaseModel):
    """A secret's value."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    value: SecretStr = Field(max_length=GREATEST_VALUE)


@router.get("/secret/{name}")
def read(name: str, request: Request) -> dict[str, Json]:
    """Give a secret's value."""
    services: Services = request.app.state.services
    found = services.ledger.secret(services.tenant, name)
    about = _about(services, name, found.version)
    return {"value": services.sealer.open(found.sealed, about=about)}


@router.post("/secret/{name}")
def add(name: str, call: SecretCall, request: Request) -> dict[str, Json]:
    """Keep a new secret."""
    services: Services = request.app.state.services
    if not _NAME.fullmatch(name):
        raise HTTPException(
            status_code=400, detail={"err_msg": "the name cannot be that of a secret"}
        )
    sealed = services.sealer.seal(call.value.get_secret_value(), about=_about(services, name, 1))
    services.ledger.add_secret(services.tenant, name, sealed=sealed, actor=actor_of(request))
    _deliver(services).keep(name, call.value.get_secret_value())
    return {"name": name, "version": 1}


@router.patch("/secret/{name}")
def change(name: str, call: SecretCall, request: Request) -> dict[str, Json]:
    """Keep another value of a secret."""
    services: Services = request.app.state.services
    version = services.ledger.secret(services.tenant, name).version
    sealed = services.sealer.seal(
        call.value.get_secret_value(), about=_about(services, name, version + 1)
    )
    services.ledger.change_secret(
        services.tenant, name, version=version, sealed=sealed, actor=actor_of(request)
    )
    _deliver(services).keep(name, call.value.get_secret_value())
    return {"name": name, "version": version + 1}


@router.delete("/secret/{name}")
def delete(name: str, request: Request) -> dict[str, Json]:
    """Forget a secret."""
    services: Services = request.app.state.services
    services.ledger.delete_secret(services.tenant, name)
    with suppress(SecretMissing):
        _deliver(services).forget(name)
    return {"name": name}


def _deliver(services: Services) -> SecretFiles:
    """Give the place where this machine's jobs look a secret up at their start."""
    return SecretFiles(services.settings.secrets_dir)


def _about(services: Services, name: str, version: int) -> str:
    return f"{services.tenant}\n{name}\n{version}"
