"""Tables of Redshift."""

from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import server_at
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts, Secret
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, Database, Table

__all__ = ["KIND", "Redshift", "RedshiftDatabase"]


@record
@attrs.frozen(kw_only=True)
class RedshiftDatabase(Database):
    """A schema of a Redshift database, read with a role or with a username and password."""

    name: str
    host: str
    port: int
    db_name: str
    schema: str
    role_arn: str | None = None
    username: Credential | None = None
    password: Credential | None = None


@attrs.frozen(kw_only=True)
class Redshift:
    """A schema of a Redshift database, read by a role or by a name with a password."""

    name: str
    db_name: str
    host: str
    schema: str
    port: int = 5439
    s3_access_role_arn: str | None = None
    username: Credential | None = attrs.field(default=None, repr=False)
    password: Credential | None = attrs.field(default=None, repr=False)

    def table(self, table_name: str, cursor: str) -> Table:
        """Declare one table with a column that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, a credential is inline, or there are both
                a role and a name with a password, or neither.
        """
        parts = Parts("Redshift")
        named = self.username is not None and self.password is not None
        if self.s3_access_role_arn and (self.username is not None or self.password is not None):
            parts.refuse("with `s3_access_role_arn`, `Redshift` takes no `username` and `password`")
        elif not self.s3_access_role_arn and not named:
            parts.refuse("`Redshift` needs `username` and `password`, or `s3_access_role_arn`")
        made = Table(
            database=RedshiftDatabase(
                name=parts.name(self.name),
                host=parts.address(self.host, "host"),
                port=parts.number(self.port, "port"),
                db_name=parts.text(self.db_name, "`db_name`"),
                schema=parts.text(self.schema, "`schema`"),
                role_arn=self.s3_access_role_arn,
                username=parts.credential(self.username, "username"),
                password=parts.credential(self.password, "password"),
            ),
            table=parts.text(table_name, "`table_name`"),
            cursor=parts.text(cursor, "`cursor`"),
        )
        parts.report()
        return made

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        user, password = Secret("user"), Secret("password")
        host = host_of(name)
        return cls(name=name, db_name="db", host=host, schema="s", username=user, password=password)


def _identity(database: RedshiftDatabase) -> str:
    return f"redshift:{database.host}:{database.port}/{database.db_name}/{database.schema}"


KIND: Final = DatabaseKind(
    name="redshift",
    title="Redshift",
    text="Tables of Redshift, read by a cursor column.",
    reaches="The host and port, with a role of AWS or with the name and the password.",
    record=RedshiftDatabase,
    declared_by=((Redshift, "table"),),
    identity=_identity,
    targets=lambda database: (server_at(database.host, database.port),),
    client="narthex_spark_apps.sources.tables.redshift:reading",
).kind()
