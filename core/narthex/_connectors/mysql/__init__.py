"""Tables of MySQL and MariaDB."""

from typing import Final, Self

import attrs

from narthex._connectors.named import host_of
from narthex._connectors.parts import Secret
from narthex._connectors.sql_tables import identity, sql_table, targets
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, SqlDatabase, Table

__all__ = ["KIND", "MySQL"]


@attrs.frozen
class MySQL:
    """A MySQL database; credentials by reference, `Secret("name")`."""

    name: str
    host: str
    db_name: str
    username: Credential = attrs.field(repr=False)
    password: Credential = attrs.field(repr=False)
    port: int = 3306
    jdbc_params: str | None = None

    def table(self, table_name: str, cursor: str) -> Table:
        """Declare one table with a column that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or a credential is inline.
        """
        return sql_table("mysql", self, table_name, cursor)

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, host_of(name), "db", Secret("user"), Secret("password"))


KIND: Final = DatabaseKind(
    name="mysql",
    title="MySQL",
    text="Tables of MySQL and MariaDB, read by a cursor column.",
    reaches="The host and port, with the name and the password.",
    record=SqlDatabase,
    accepts=lambda database: database.kind == "mysql",
    declared_by=((MySQL, "table"),),
    identity=identity,
    targets=targets,
    client="narthex_spark_apps.sources.tables.mysql:reading",
    install="narthex[mysql]",
).kind()
