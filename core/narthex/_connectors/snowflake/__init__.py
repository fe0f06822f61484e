"""Tables of Snowflake."""

import re
from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import HTTPS_PORT
from narthex._connectors.egress import AddressInvalidError, Destination, parse_host
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts, Secret
from narthex._connectors.tables import DatabaseKind
from narthex._ir.connections import Credential, Database, Table

__all__ = ["KIND", "Snowflake", "SnowflakeDatabase", "snowflake_target"]


_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


@record
@attrs.frozen(kw_only=True)
class SnowflakeDatabase(Database):
    """A schema of a Snowflake account."""

    name: str
    account: str
    db_name: str
    schema: str
    warehouse: str
    role: str
    username: Credential
    password: Credential


@attrs.frozen
class Snowflake:
    """A schema of a Snowflake account; credentials by reference, `Secret("name")`."""

    name: str
    account: str
    db_name: str
    username: Credential = attrs.field(repr=False)
    password: Credential = attrs.field(repr=False)
    warehouse: str
    schema: str
    role: str

    def table(self, table_name: str, cursor: str | None = None) -> Table:
        """Declare one table; a source needs `cursor`, a sink must not have one.

        Raises:
            DefinitionErrors: A part is missing, or a credential is inline.
        """
        parts = Parts("Snowflake")
        made = Table(
            database=SnowflakeDatabase(
                name=parts.name(self.name),
                account=parts.text(self.account, "`account`"),
                db_name=parts.text(self.db_name, "`db_name`"),
                schema=parts.text(self.schema, "`schema`"),
                warehouse=parts.text(self.warehouse, "`warehouse`"),
                role=parts.text(self.role, "`role`"),
                username=parts.needed(self.username, "username"),
                password=parts.needed(self.password, "password"),
            ),
            table=parts.text(table_name, "`table_name`"),
            cursor=parts.optional_text(cursor, "`cursor`"),
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
        return cls(name, host_of(name), "db", user, password, warehouse="w", schema="s", role="r")


def snowflake_target(database: SnowflakeDatabase) -> Destination:
    """Return the server of a Snowflake account.

    Raises:
        AddressInvalidError: The account is not the name of one.
    """
    account = database.account
    if not _ACCOUNT.fullmatch(account):
        raise AddressInvalidError(f"`{account}` is not the name of an account")
    domain = "cn" if account.partition(".")[2].startswith("cn-") else "com"
    return Destination(parse_host(f"{account}.snowflakecomputing.{domain}"), HTTPS_PORT)


def _identity(database: SnowflakeDatabase) -> str:
    return f"snowflake:{database.account}/{database.db_name}/{database.schema}"


KIND: Final = DatabaseKind(
    name="snowflake",
    title="Snowflake",
    text="Tables of Snowflake, read by a cursor column. A sink writes one table row for each "
    "current row.",
    reaches="The account's server, with the name and the password.",
    record=SnowflakeDatabase,
    declared_by=((Snowflake, "table"),),
    identity=_identity,
    targets=lambda database: (snowflake_target(database),),
    client="narthex_spark_apps.sources.tables.snowflake:reading",
    writer="narthex_spark_apps.sinks.snowflake:open_target",
    install="narthex[snowflake]",
).kind()
