"""Connections that a platform stores, and the definitions that name them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeAlias, get_args

import attrs

from narthex._base.origin import Origin
from narthex._connectors.named import CONNECTION_NAME, connection_of
from narthex._connectors.registry import Kind, kinds
from narthex._ir.connections import Connector, SecretRef
from narthex._ir.entities import Dataset, Definitions
from narthex.errors import ConnectorInvalid, DefinitionError, DefinitionErrors

Argument: TypeAlias = str | int | bool
"""The value of a parameter of a connection; credentials are names of secrets."""


class ConnectionInvalidError(ValueError):
    """A connection lacks a parameter, or has one that is not of its kind."""


@attrs.frozen(kw_only=True)
class Connection:
    """A connection that a platform stores.

    Attributes:
        kind: The class with which code declares it, such as `Postgres`.
        arguments: Its other parameters than credentials, by name.
        secrets: The names of the secrets that are its credentials, by parameter.
        branches: Patterns of the branches whose commits may name it.
    """

    name: str
    kind: str
    arguments: Mapping[str, Argument]
    secrets: Mapping[str, str]
    branches: tuple[str, ...] = ("*",)

    def place(self) -> Connector:
        """Return any place of the connection; its own parts in it are those of every place.

        Raises:
            ConnectionInvalidError: The kind is unknown, or the parameters are not its own.
        """
        return _built(self)


def connection_kinds() -> dict[str, tuple[type, Kind]]:
    """Return the classes whose connections can be stored, with their kinds, by name."""
    return {
        declares.__name__: (declares, kind)
        for kind in kinds()
        if kind.connection
        for declares, _ in kind.declared_by
        if hasattr(declares, "get")
    }


def parameters_of(kind: str) -> tuple[dict[str, type], tuple[str, ...]]:
    """Return the parameters of a kind's connections, with their types, and its credentials.

    Raises:
        ConnectionInvalidError: The kind is unknown.
    """
    declares, _ = _known(kind)
    plain: dict[str, type] = {}
    credentials: list[str] = []
    for field in attrs.fields(declares):
        types = get_args(field.type) or (field.type,)
        if SecretRef in types:
            credentials.append(field.name)
        elif field.name != "name":
            plain[field.name] = next(one for one in (bool, int, str) if one in types)
    return plain, tuple(credentials)


def resolve_connections(
    definitions: Definitions, find: Callable[[str], Connection | None]
) -> tuple[Definitions, tuple[DefinitionError, ...]]:
    """Replace the placeholders of connections by those that the platform stores.

    Args:
        definitions: The definitions of a commit.
        find: Returns the connection of a name; None if the commit may use none of that name.

    Returns:
        The definitions, and an error for each source or sink whose connection is missing or of
        another kind.
    """
    errors: list[DefinitionError] = []

    def resolved(connector: Connector, origin: Origin) -> Connector:
        name = connection_of(connector)
        if name is None:
            return connector
        try:
            return _completed(connector, name, find(name))
        except ConnectionInvalidError as error:
            hint = f"the operator adds it: `narthex connection set {name} {_named(connector)} …`"
            errors.append(ConnectorInvalid(str(error), origin=origin, hint=hint))
            return connector

    def dataset_of(dataset: Dataset) -> Dataset:
        return attrs.evolve(
            dataset,
            sources=tuple(
                attrs.evolve(one, connector=resolved(one.connector, one.origin))
                for one in dataset.sources
            ),
            sinks=tuple(
                attrs.evolve(one, target=resolved(one.target, one.origin)) for one in dataset.sinks
            ),
        )

    whole = attrs.evolve(definitions, datasets=tuple(map(dataset_of, definitions.datasets)))
    return whole, tuple(errors)


def _completed(connector: Connector, name: str, stored: Connection | None) -> Connector:
    wanted = _named(connector)
    if stored is None:
        raise ConnectionInvalidError(f"this branch has no connection `{name}`")
    if stored.kind != wanted:
        raise ConnectionInvalidError(
            f"the connection `{name}` is of `{stored.kind}`, and the definition says `{wanted}`"
        )
    _, kind = _known(stored.kind)
    place = stored.place()
    cls = type(connector)
    parts = attrs.fields(cls) if attrs.has(cls) else ()
    return kind.record(
        **{
            part.name: getattr(place if part.name in kind.connection else connector, part.name)
            for part in parts
        }
    )


def _named(connector: Connector) -> str:
    """Return the class with which code declares a connector."""
    for name, (_, kind) in connection_kinds().items():
        if type(connector) is kind.record and kind.accepts(connector):
            return name
    return type(connector).__name__


def _known(kind: str) -> tuple[type, Kind]:
    known = connection_kinds()
    if kind not in known:
        raise ConnectionInvalidError(
            f"`{kind}` is not a kind of connection; expected one of {', '.join(known)}"
        )
    return known[kind]


def _built(stored: Connection) -> Connector:
    declares, kind = _known(stored.kind)
    if faults := [*_faults(stored, declares)]:
        raise ConnectionInvalidError("; ".join(faults))
    credentials = {name: SecretRef(secret) for name, secret in stored.secrets.items()}
    made = declares(name=stored.name, **stored.arguments, **credentials)
    (method,) = (method for one, method in kind.declared_by if one is declares)
    try:
        place = getattr(made, method)(*kind.example)
    except DefinitionErrors as errors:
        _refuse(errors)
    if not isinstance(place, Connector):
        raise TypeError(f"`{stored.kind}.{method}` returned no connector")
    return place


def _refuse(errors: DefinitionErrors) -> NoReturn:
    found = "; ".join(error.message for error in errors.exceptions_flat())
    raise ConnectionInvalidError(found) from None


def _faults(stored: Connection, declares: type) -> Iterator[str]:
    if not CONNECTION_NAME.fullmatch(stored.name):
        yield f"`{stored.name}` is not a name; a name has letters, digits, `_`, `.` and `-`"
    plain, credentials = parameters_of(stored.kind)
    for name, value in stored.arguments.items():
        if wrong := _argument_fault(stored.kind, name, value, plain, credentials):
            yield wrong
    for name in sorted(stored.secrets.keys() - {*credentials}):
        yield f"`{name}` of `{stored.kind}` is not a credential"
    given = {"name", *stored.arguments, *stored.secrets}
    for field in attrs.fields(declares):
        if field.default is attrs.NOTHING and field.name not in given:
            yield f"`{field.name}` is missing"


def _argument_fault(
    kind: str, name: str, value: Argument, plain: Mapping[str, type], credentials: Sequence[str]
) -> str:
    if name in credentials:
        return f"`{name}` is a credential; give the name of its secret"
    if name not in plain:
        return f"`{kind}` has no `{name}`; it has {', '.join([*plain, *credentials])}"
    if type(value) is not plain[name]:
        return f"`{name}` got `{value!r}`; expected {plain[name].__name__}"
    return ""
