"""Tables of PostgreSQL."""

from typing import Final, Self

import attrs

from narthex._connectors.named import host_of
from narthex._connectors.parts import Secret
from narthex._connectors.sql_tables import identity, sql_table, targets
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, SqlDatabase, Table

__all__ = ["KIND", "Postgres"]


@attrs.frozen
class Postgres:
    """A PostgreSQL database; credentials by reference, `Secret("name")`."""

    name: str
    host: str
    db_name: str
    username: Credential = attrs.field(repr=False)
    password: Credential = attrs.field(repr=False)
    port: int = 5432
    jdbc_params: str | None = None

    def table(self, table_name: str, cursor: str | None = None) -> Table:
        """Declare one table; a source needs `cursor`, a column that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or a credential is inline.
        """
        return sql_table("postgres", self, table_name, cursor)

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, host_of(name), "db", Secret("user"), Secret("password"))


KIND: Final = DatabaseKind(
    name="postgres",
    title="Postgres",
    text="Tables of PostgreSQL, read by a cursor column. A sink writes one table row for each "
    "current row.",
    reaches="The host and port, with the name and the password.",
    record=SqlDatabase,
    accepts=lambda database: database.kind == "postgres",
    declared_by=((Postgres, "table"),),
    identity=identity,
    targets=targets,
    client="narthex_spark_apps.sources.tables.postgres:reading",
    writer="narthex_spark_apps.sinks.postgres:open_target",
).kind()
