"""The common parts of PostgreSQL and MySQL, which are reached by a host and a port."""

from typing import Protocol

from narthex._connectors.addresses import driver_options, server_at
from narthex._connectors.egress import Destination
from narthex._connectors.parts import Parts
from narthex._ir.connections import Credential, SqlDatabase, Table


class SqlServer(Protocol):
    """The parts with which authors declare a database."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def db_name(self) -> str: ...
    @property
    def username(self) -> Credential: ...
    @property
    def password(self) -> Credential: ...
    @property
    def port(self) -> int: ...
    @property
    def jdbc_params(self) -> str | None: ...


def sql_table(kind: str, declared: SqlServer, table: str, cursor: str | None) -> Table:
    """Return a table of a database of that kind.

    Raises:
        DefinitionErrors: A part is missing, or a credential is inline.
    """
    parts = Parts(type(declared).__name__)
    made = Table(
        database=SqlDatabase(
            kind=kind,
            name=parts.name(declared.name),
            host=parts.address(declared.host, "host"),
            port=parts.number(declared.port, "port"),
            db_name=parts.text(declared.db_name, "`db_name`"),
            username=parts.needed(declared.username, "username"),
            password=parts.needed(declared.password, "password"),
            jdbc_params=_jdbc(declared.jdbc_params, parts),
        ),
        table=parts.text(table, "`table_name`"),
        cursor=parts.optional_text(cursor, "`cursor`"),
    )
    parts.report()
    return made


def _jdbc(parameters: str | None, parts: Parts) -> str | None:
    if parameters and "password" in parameters.lower():
        parts.credential(parameters, "password")
        return None
    return parameters


def identity(database: SqlDatabase) -> str:
    """Return the string that identifies a database externally."""
    return f"{database.kind}:{database.host}:{database.port}/{database.db_name}"


def targets(database: SqlDatabase) -> tuple[Destination, ...]:
    """Return the server of a database.

    Raises:
        AddressInvalidError: Its host is not one, or an option of the driver cannot be set.
    """
    driver_options(database)
    return (server_at(database.host, database.port),)
