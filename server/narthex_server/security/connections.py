"""Routes of the connections that definitions name, such as `Postgres.get("shop")`."""

import os
import socket
from fnmatch import fnmatchcase

import attrs
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from narthex._analysis.policy import connector_errors, egress_rules, load_policy, outlets
from narthex._connectors import (
    Argument,
    Connection,
    ConnectionInvalidError,
    Destination,
    EgressRules,
    resolve,
)
from narthex.errors import ConnectionDenied
from narthex_ledger import SealedValues
from narthex_server.errors import InvalidRequest
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ConnectionsDep, SettingsDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(
    route_class=PlainRoute,
    dependencies=[requires(Right.SECRETS, extent=Extent.INSTALLATION)],
)

HTTPS_PORT = 443
ANSWERS_WITHIN_S = 5.0
"""How long a test waits for each server."""


class ConnectionCall(BaseModel):
    """A connection to store."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str
    arguments: dict[str, str | int | bool] = Field(default_factory=dict, max_length=32)
    secrets: dict[str, str] = Field(default_factory=dict, max_length=32)
    branches: list[str] = Field(default_factory=lambda: ["*"], min_length=1, max_length=64)

    def connection(self, name: str) -> Connection:
        """Return the connection under a name."""
        return Connection(
            name=name,
            kind=self.kind,
            arguments=self.arguments,
            secrets=self.secrets,
            branches=tuple(self.branches),
        )


class StoredConnection(TypedDict):
    """A connection; credentials are the names of secrets."""

    name: str
    kind: str
    arguments: dict[str, Argument]
    secrets: dict[str, str]
    branches: list[str]


class StoredConnections(TypedDict):
    """All connections."""

    connections: list[StoredConnection]


class ConnectionName(TypedDict):
    """A connection that was deleted."""

    name: str


class ConnectionTest(BaseModel):
    """The branch for which a connection is tested."""

    model_config = ConfigDict(extra="forbid", strict=True)

    branch: str = "main"


class ConnectionTestResult(TypedDict):
    """The outcome of a test.

    Attributes:
        faults: The reasons why definitions of the branch cannot use the connection; empty if none.
        reached: The servers that accepted a connection; no credentials were sent.
    """

    faults: list[str]
    reached: list[str]


@router.get("/connections")
def connections(stored: ConnectionsDep) -> StoredConnections:
    """List all connections."""
    found = (find_connection(stored, name) for name in stored.rows.names(stored.tenant))
    return {"connections": [_plain(one) for one in found if one is not None]}


@router.put("/connections/{name}")
def store(
    name: str, call: ConnectionCall, stored: ConnectionsDep, caller: IdentityDep
) -> StoredConnection:
    """Store a connection, or replace the one of that name; commits use it from now on."""
    connection = call.connection(name)
    try:
        connection.place()
    except ConnectionInvalidError as error:
        raise InvalidRequest(str(error)) from None
    text = call.model_dump_json()
    if stored.find(name) is None:
        stored.add(name, text, actor=caller.actor)
    else:
        stored.change(name, text, actor=caller.actor)
    return _plain(connection)


@router.delete("/connections/{name}")
def delete(name: str, stored: ConnectionsDep) -> ConnectionName:
    """Delete a connection; datasets that were committed with it keep their sources."""
    stored.rows.delete(stored.tenant, name)
    return {"name": name}


@router.post("/connections/{name}/test")
def try_connection(
    name: str, call: ConnectionTest, stored: ConnectionsDep, settings: SettingsDep
) -> ConnectionTestResult:
    """Check a connection against the policy of a branch, and connect to its servers.

    No credentials are sent: only a job of a branch that may use the secrets does that.
    """
    stored.rows.get(stored.tenant, name)
    connection = find_connection(stored, name, branch=call.branch)
    if connection is None:
        return {"faults": [f"branch `{call.branch}` may not use it"], "reached": []}
    place = connection.place()
    policy, store = load_policy(settings.policy_file), os.environ.get("AWS_ENDPOINT_URL", "")
    denied = connector_errors(place, policy, branch=call.branch, endpoint_url=store, what=name)
    faults = [f"{error.message}; {error.hint}" for error in denied]
    reached: list[str] = []
    if not faults:
        for outlet in outlets(place, endpoint_url=store):
            for target in outlet.targets:
                fault = _connect(target, egress_rules(policy), is_fixed=outlet.is_fixed)
                (faults if fault else reached).append(fault or str(target))
    return {"faults": faults, "reached": reached}


def find_connection(
    stored: SealedValues, name: str, *, branch: str | None = None
) -> Connection | None:
    """Return a connection; None if none has that name, or the branch may not use it."""
    text = stored.find(name)
    if text is None:
        return None
    call = ConnectionCall.model_validate_json(text)
    may_use = branch is None or any(fnmatchcase(branch, pattern) for pattern in call.branches)
    return call.connection(name) if may_use else None


def _connect(target: Destination, rules: EgressRules, *, is_fixed: bool) -> str:
    """Connect to a server; return the reason if that fails."""
    if target.port is None:
        target = attrs.evolve(target, port=HTTPS_PORT)
    try:
        address = target.host if is_fixed else str(resolve(target, rules)[0])
        socket.create_connection((address, target.port), timeout=ANSWERS_WITHIN_S).close()
    except ConnectionDenied as error:
        return f"{error.message}; {error.hint}"
    except OSError as error:
        return f"`{target}` cannot be reached: {error.strerror or error}"
    return ""


def _plain(connection: Connection) -> StoredConnection:
    return {
        "name": connection.name,
        "kind": connection.kind,
        "arguments": dict(connection.arguments),
        "secrets": dict(connection.secrets),
        "branches": [*connection.branches],
    }
