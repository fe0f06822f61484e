"""Connectors with Fennel's signatures: accept credentials as text, but keep them off the wire."""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import attrs

from narthex import connectors
from narthex._connectors.registry import is_polled
from narthex._ir.entities import Connector, Credential
from narthex.compat.errors import told
from narthex.connectors import Secret

__all__ = [
    "S3",
    "Avro",
    "BigQuery",
    "Kafka",
    "Mongo",
    "MySQL",
    "Postgres",
    "Protobuf",
    "PubSub",
    "Redshift",
    "Snowflake",
    "Webhook",
    "sink",
    "source",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")

CREDENTIALS: Final = frozenset(
    {
        "aws_access_key_id",
        "aws_secret_access_key",
        "password",
        "sasl_plain_password",
        "sasl_plain_username",
        "service_account_key",
        "token",
        "username",
    }
)
"""The parameters that hold credentials, in any connector."""


IGNORED: Final = frozenset({"presorted", "retention", "verify_cert"})
"""The parameters, in any connector, that Narthex refuses because they would have no effect here:
rows need no order, pushed rows are kept for ever, and certificates are always verified."""


class OmittedArgument(UserWarning):
    """An argument of the author is not part of the definition."""


def migrated(connector: Callable[_P, _T]) -> Callable[_P, _T]:
    """Accept credentials as text, unknown arguments and `IGNORED`, and omit them.

    `Secret("name/parameter")`, with the connector's name, replaces a credential.
    """
    signature = inspect.signature(connector)
    title = getattr(connector, "__name__", "")

    @wraps(connector, updated=())
    def make(*args: _P.args, **given: _P.kwargs) -> _T:
        for unknown in given.keys() - signature.parameters.keys():
            _warn(f"`{title}` takes no `{unknown}`; it is left out, as Fennel left it out")
            del given[unknown]
        bound = signature.bind(*args, **given)
        for ignored in bound.arguments.keys() & IGNORED:
            _warn(f"`{ignored}` of `{title}` has no effect on this platform; it is left out")
            del bound.arguments[ignored]
        for parameter in bound.arguments.keys() & CREDENTIALS:
            if not isinstance(bound.arguments[parameter], Credential | None):
                secret = f"{bound.arguments.get('name', title)}/{parameter}"
                _warn(f"`{parameter}` is plain text; `Secret({secret!r})` replaces it")
                bound.arguments[parameter] = Secret(secret)
        return told(connector)(*bound.args, **bound.kwargs)

    vars(make)["get"] = getattr(connector, "get", None)
    return make


def _warn(text: str) -> None:
    warnings.warn(text, OmittedArgument, stacklevel=3)


@attrs.frozen
class _S3(connectors.S3):
    """Files in S3, with Fennel's `presorted`."""

    bucket = migrated(connectors.S3.bucket)


@wraps(connectors.source)
def _source(*args: object, **given: object) -> Callable[[_A], _A]:
    """Declare a source; `every` of a stream, and of a bounded source, has no effect."""
    bound = inspect.signature(connectors.source).bind(*args, **given)
    conn, bounded = bound.arguments.get("conn"), bool(bound.arguments.get("bounded"))
    if isinstance(conn, Connector) and not is_polled(conn, bounded=bounded):
        bound.arguments["every"] = None
    declared: Callable[[_A], _A] = connectors.source(*bound.args, **bound.kwargs)
    return declared


def told_above(decorator: Callable[_P, Callable[[_A], _B]]) -> Callable[_P, Callable[[_A], _B]]:
    """Make a decorator with arguments raise its errors as Fennel's."""

    @wraps(decorator)
    def place(*args: _P.args, **given: _P.kwargs) -> Callable[[_A], _B]:
        return told(told(decorator)(*args, **given))

    return place


Avro = migrated(connectors.Avro)
BigQuery = migrated(connectors.BigQuery)
Kafka = migrated(connectors.Kafka)
Mongo = migrated(connectors.Mongo)
MySQL = migrated(connectors.MySQL)
Postgres = migrated(connectors.Postgres)
Protobuf = migrated(connectors.Protobuf)
PubSub = migrated(connectors.PubSub)
Redshift = migrated(connectors.Redshift)
S3 = migrated(_S3)
Snowflake = migrated(connectors.Snowflake)
Webhook = migrated(connectors.Webhook)
sink = told_above(connectors.sink)
source = told_above(_source)
