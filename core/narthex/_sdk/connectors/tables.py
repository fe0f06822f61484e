"""Connectors of tables, which are polled from the last position of their cursor."""

from typing import NoReturn

import attrs

from narthex._ir.entities import (
    BigQueryDataset,
    Credential,
    MongoDatabase,
    RedshiftDatabase,
    SnowflakeDatabase,
    SqlDatabase,
    Table,
)
from narthex._sdk.connectors.parts import Parts, not_kept


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
        return _sql_table("postgres", self, table_name, cursor)

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Postgres", name)


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
        return _sql_table("mysql", self, table_name, cursor)

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("MySQL", name)


def _sql_table(kind: str, of: Postgres | MySQL, table: str, cursor: str | None) -> Table:
    parts = Parts(type(of).__name__)
    made = Table(
        database=SqlDatabase(
            kind=kind,
            name=parts.name(of.name),
            host=parts.address(of.host, "host"),
            port=parts.number(of.port, "port"),
            db_name=parts.text(of.db_name, "`db_name`"),
            username=parts.needed(of.username, "username"),
            password=parts.needed(of.password, "password"),
            jdbc_params=_jdbc(of.jdbc_params, parts),
        ),
        table=parts.text(table, "`table_name`"),
        cursor=None if cursor is None else parts.text(cursor, "`cursor`"),
    )
    parts.report()
    return made


def _jdbc(parameters: str | None, parts: Parts) -> str | None:
    if parameters and "password" in parameters.lower():
        parts.credential(parameters, "password")
        return None
    return parameters


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
            cursor=cursor,
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Snowflake", name)


@attrs.frozen
class BigQuery:
    """A dataset of a BigQuery project; its key by reference, `Secret("name")`."""

    name: str
    project_id: str
    dataset_id: str
    service_account_key: Credential = attrs.field(repr=False)

    def table(self, table_name: str, cursor: str) -> Table:
        """Declare one table with a column that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or the key is inline.
        """
        parts = Parts("BigQuery")
        made = Table(
            database=BigQueryDataset(
                name=parts.name(self.name),
                project_id=parts.text(self.project_id, "`project_id`"),
                dataset_id=parts.text(self.dataset_id, "`dataset_id`"),
                service_account_key=parts.needed(self.service_account_key, "service_account_key"),
            ),
            table=parts.text(table_name, "`table_name`"),
            cursor=parts.text(cursor, "`cursor`"),
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("BigQuery", name)


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

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Redshift", name)


@attrs.frozen
class Mongo:
    """A database of MongoDB; credentials by reference, `Secret("name")`."""

    name: str
    host: str
    db_name: str
    username: Credential = attrs.field(repr=False)
    password: Credential = attrs.field(repr=False)

    def collection(self, collection_name: str, cursor: str) -> Table:
        """Declare one collection with a field that grows with each change.

        Raises:
            DefinitionErrors: A part is missing, or a credential is inline.
        """
        parts = Parts("Mongo")
        made = Table(
            database=MongoDatabase(
                name=parts.name(self.name),
                host=parts.address(self.host, "host"),
                db_name=parts.text(self.db_name, "`db_name`"),
                username=parts.needed(self.username, "username"),
                password=parts.needed(self.password, "password"),
            ),
            table=parts.text(collection_name, "`collection_name`"),
            cursor=parts.text(cursor, "`cursor`"),
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Mongo", name)
