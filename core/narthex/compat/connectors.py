# mypy: disable-error-code="explicit-any"
"""Connectors with Fennel's signatures: accept credentials as text, but keep them off the wire."""

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

import attrs

from narthex import connectors
from narthex._connectors.registry import is_polled
from narthex._ir.connections import Files
from narthex._ir.entities import Connector, Credential
from narthex.compat.errors import FennelError, told, told_above
from narthex.connectors import Secret

__all__ = [
    "HTTP",
    "S3",
    "Avro",
    "BigQuery",
    "Kafka",
    "Kinesis",
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

_T = TypeVar("_T")
_A = TypeVar("_A")

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


def migrated(connector: Callable[..., _T]) -> Callable[..., _T]:
    """Accept credentials as text, unknown arguments and `IGNORED`, and omit them.

    `Secret("name/parameter")`, with the connector's name, replaces a credential. The methods of
    what is made raise their errors as Fennel's.
    """
    title = connector.__name__
    makes = _with_told_methods(connector)
    signature = inspect.signature(connector)

    @wraps(connector, updated=())
    def make(*args: object, **given: object) -> _T:
        for unknown in given.keys() - signature.parameters.keys():
            _warn(f"`{title}` takes no `{unknown}`; it is left out, as Fennel left it out")
            del given[unknown]
        bound = _bound(signature, title, args, given)
        for parameter in bound.arguments.keys() & CREDENTIALS:
            if not isinstance(bound.arguments[parameter], Credential | None):
                secret = f"{bound.arguments.get('name', title)}/{parameter}"
                _warn(f"`{parameter}` is plain text; `Secret({secret!r})` replaces it")
                bound.arguments[parameter] = Secret(secret)
        return told(makes)(*bound.args, **bound.kwargs)

    vars(make)["get"] = getattr(makes, "get", None)
    return make


def _with_told_methods(connector: Callable[..., _T]) -> Callable[..., _T]:
    """Return a class whose public methods omit `IGNORED` and raise their errors as Fennel's."""
    if not isinstance(connector, type):
        return connector
    methods = {
        name: _told_method(method)
        for name, method in inspect.getmembers(connector, inspect.isfunction)
        if not name.startswith("_")
    }
    made: type[_T] = type(connector.__name__, (connector,), methods)
    return made


def _told_method(method: Callable[..., object]) -> Callable[..., object]:
    signature = inspect.signature(method)

    @wraps(method)
    def call(*args: object, **given: object) -> object:
        bound = _bound(signature, method.__name__, args, given)
        return told(method)(*bound.args, **bound.kwargs)

    return call


def _bound(
    signature: inspect.Signature, title: str, args: tuple[object, ...], given: dict[str, object]
) -> inspect.BoundArguments:
    """Bind arguments, without `IGNORED`.

    Raises:
        FennelError: They do not fit.
    """
    try:
        bound = signature.bind(*args, **given)
    except TypeError as error:
        raise FennelError(f"`{title}`: {error}") from error
    for ignored in bound.arguments.keys() & IGNORED:
        _warn(f"`{ignored}` of `{title}` has no effect on this platform; it is left out")
        del bound.arguments[ignored]
    return bound


def _warn(text: str) -> None:
    warnings.warn(text, OmittedArgument, stacklevel=4)


@wraps(connectors.source)
def _source(*args: object, **given: object) -> Callable[[_A], _A]:
    """Declare a source.

    `every` of a stream, and of a bounded source, has no effect, nor has `spread` without dates.

    Raises:
        FennelError: `idleness` is given without `bounded`.
    """
    bound = _bound(inspect.signature(connectors.source), "source", args, given)
    conn, bounded = bound.arguments.get("conn"), bool(bound.arguments.get("bounded"))
    if not bounded and bound.arguments.get("idleness") is not None:
        raise FennelError("idleness parameter should not be passed when bounded is set as False")
    if isinstance(conn, Connector) and not is_polled(conn, bounded=bounded):
        bound.arguments["every"] = None
    dated = bound.arguments.get("since") or bound.arguments.get("until")
    if isinstance(conn, Files) and conn.spread_us is not None and dated is None:
        _warn("`spread` without `since` and `until` has no effect; it is left out")
        bound.arguments["conn"] = attrs.evolve(conn, spread_us=None)
    declared: Callable[[_A], _A] = connectors.source(*bound.args, **bound.kwargs)
    return declared


Avro = migrated(connectors.Avro)
BigQuery = migrated(connectors.BigQuery)
HTTP = migrated(connectors.HTTP)
Kafka = migrated(connectors.Kafka)
Kinesis = migrated(connectors.Kinesis)
Mongo = migrated(connectors.Mongo)
MySQL = migrated(connectors.MySQL)
Postgres = migrated(connectors.Postgres)
Protobuf = migrated(connectors.Protobuf)
PubSub = migrated(connectors.PubSub)
Redshift = migrated(connectors.Redshift)
S3 = migrated(connectors.S3)
Snowflake = migrated(connectors.Snowflake)
Webhook = migrated(connectors.Webhook)
sink = told_above(connectors.sink)
source = told_above(_source)
