"""Connections by name: code names one, and the platform stores its address and its credentials.

`Postgres.get("shop").table("orders", cursor="id")` declares a place of the connection `shop`. In
the definition, a host below `connection.invalid` is the placeholder of the address; that domain
never has one (RFC 6761). A server replaces the placeholders of a commit before it checks the
commit, so the result is the same as if code had contained the connection.
"""

import re
from typing import Final

import attrs

from narthex._authoring.error_collection import report
from narthex._authoring.source_locations import author_origin
from narthex._ir.connections import Connector, Database
from narthex.errors import ConnectorInvalid

CONNECTION_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""The names that connections can have."""

_PLACEHOLDER: Final = ".connection.invalid"


def host_of(name: str) -> str:
    """Return the placeholder of the address of a connection.

    Raises:
        DefinitionErrors: The name is not one of a connection, and no collector is active.
    """
    if not CONNECTION_NAME.fullmatch(name):
        wrong = f"`{name}` is not the name of a connection"
        hint = "a name has letters, digits, `_`, `.` and `-`"
        report([ConnectorInvalid(wrong, origin=author_origin(), hint=hint)])
    return f"{name}{_PLACEHOLDER}"


def connection_of(connector: Connector | Database) -> str | None:
    """Return the name of the connection of a connector; None if code has it all."""
    cls = type(connector)
    for field in attrs.fields(cls) if attrs.has(cls) else ():
        part: object = getattr(connector, field.name)
        if isinstance(part, str) and part.endswith(_PLACEHOLDER):
            return part.removesuffix(_PLACEHOLDER)
        if isinstance(part, Database):
            return connection_of(part)
    return None
