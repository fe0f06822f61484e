"""Databases for the specification of reading tables: those that run here, and those of accounts.

A database of an account is described by an environment variable, a JSON object of the parts of its
connector; without it, its tests are skipped.
"""

import contextlib
import datetime as dt
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import attrs
import psycopg
from pymongo import MongoClient
from typing_extensions import override

from narthex._connectors.bigquery import BigQueryDataset
from narthex._connectors.egress import Destination, EgressRules
from narthex._connectors.mongo import MongoDatabase, mongo_address
from narthex._connectors.redshift import RedshiftDatabase
from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir.connections import Credential, Database, SecretRef, SqlDatabase, Table
from narthex_spark_apps.platform.optional_clients import load_client
from narthex_spark_apps.sources.tables.reader import TableAccess
from narthex_stack.machine.ports import HOST
from tests.spark_apps.sources.mariadb import MariaDb

T0 = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
WORD: Final = "world/word"
ACCOUNTS: Final = {
    "redshift": "NARTHEX_TEST_REDSHIFT",
    "snowflake": "NARTHEX_TEST_SNOWFLAKE",
    "bigquery": "NARTHEX_TEST_BIGQUERY",
    "mongodb": "NARTHEX_TEST_MONGODB",
}
"""Where the parts of each connector are described whose database is an account's."""


@attrs.frozen(kw_only=True)
class World:
    """One database: creates tables and inserts rows.

    Attributes:
        key: The columns by which the database identifies rows of a table with the key `id`.
        tick_us: The precision of its instants.
        has_schema: Whether it knows of tables and columns that are not there.
    """

    database: Database
    secrets: Mapping[str, str]
    shop: "Shop"
    key: tuple[str, ...] = ()
    tick_us: int = 1
    has_schema: bool = True

    def make(self, name: str, *, cursor: str) -> TableAccess:
        """Make an empty table whose cursor is an `instant`, a `number` or a `text`."""
        table = self.shop.make(f"narthex_{name}", cursor)
        return self.access(Table(database=self.database, table=table, cursor="changed"))

    def access(self, table: Table) -> TableAccess:
        assert table.cursor is not None
        return TableAccess(
            table=table,
            cursor=table.cursor,
            reveal=self._reveal,
            egress=EgressRules.of([HOST]),
            ca_file="",
        )

    def put(self, access: TableAccess, number: int, changed: object) -> None:
        self.shop.put(access.table.table, (number, T0, "ann", 2.5, changed))

    def renamed(self, access: TableAccess, **names: str) -> TableAccess:
        """Return the access to a table, or a column of it, of another name."""
        return self.access(attrs.evolve(access.table, **names))

    def with_word(self, access: TableAccess, word: str) -> TableAccess:
        """Return the access with another password."""
        changed = attrs.evolve(self, secrets={**self.secrets, WORD: word})
        return changed.access(access.table)

    def _reveal(self, credential: Credential, targets: Sequence[Destination]) -> str:
        assert targets
        assert isinstance(credential, SecretRef)
        return self.secrets[credential.name]


class Shop(Protocol):
    """The other side of a database: who writes to it."""

    def make(self, name: str, cursor: str) -> str:
        """Make an empty table anew; return what an author calls it."""

    def put(self, table: str, row: tuple[object, ...]) -> None:
        """Put a row of (id, at, who, amount, changed)."""


@attrs.frozen(kw_only=True)
class SqlShop(Shop):
    """A database of SQL: its execution of a statement, its types, its mark of a parameter."""

    execute: Callable[[str, tuple[object, ...]], object]
    instant: str
    text: str
    number: str = "bigint"
    mark: str = "%s"
    schema: str = ""

    @override
    def make(self, name: str, cursor: str) -> str:
        kinds = {"instant": self.instant, "text": self.text, "number": self.number}
        self.execute(f"DROP TABLE IF EXISTS {self.schema}{name}", ())
        columns = (
            f"id {self.number} NOT NULL, at {self.instant}, who {self.text}, "
            f"amount numeric(10, 2), changed {kinds[cursor]}"
        )
        self.execute(f"CREATE TABLE {self.schema}{name} ({columns}, PRIMARY KEY (id))", ())
        return name

    @override
    def put(self, table: str, row: tuple[object, ...]) -> None:
        marks = ", ".join([self.mark] * len(row))
        self.execute(f"INSERT INTO {self.schema}{table} VALUES ({marks})", row)  # noqa: S608


@attrs.frozen(kw_only=True)
class MongoShop(Shop):
    """A database of documents."""

    database: Any

    @override
    def make(self, name: str, cursor: str) -> str:
        self.database.drop_collection(name)
        return name

    @override
    def put(self, table: str, row: tuple[object, ...]) -> None:
        names = ("id", "at", "who", "amount", "changed")
        self.database[table].insert_one(dict(zip(names, row, strict=True)))


def postgres_world(dsn: str, *, as_redshift: bool = False) -> Iterator[World]:
    """Yield a database of Postgres; it also proves what is Postgres's in the client of Redshift."""
    address = urlsplit(dsn)
    where = {
        "name": "crm",
        "host": str(address.hostname),
        "port": int(address.port or 0),
        "db_name": address.path.strip("/"),
        "username": SecretRef("world/user"),
        "password": SecretRef(WORD),
    }
    database: Database = (
        RedshiftDatabase(schema="public", **where)
        if as_redshift
        else SqlDatabase(kind="postgres", **where)
    )
    plain = dsn.replace("postgresql+psycopg2", "postgresql")
    with psycopg.connect(plain, autocommit=True) as connection:
        yield World(
            database=database,
            secrets={"world/user": str(address.username), WORD: str(address.password)},
            shop=SqlShop(
                execute=connection.execute,  # type: ignore[arg-type]
                instant="timestamptz",
                text="text",
            ),
            key=() if as_redshift else ("id",),
        )


def mysql_world(server: MariaDb) -> Iterator[World]:
    """Yield a database of MariaDB."""
    with contextlib.closing(server.connect(init_command="SET time_zone = '+00:00'")) as connection:

        def execute(statement: str, row: tuple[object, ...]) -> None:
            with connection.cursor() as cursor:
                cursor.execute(statement, row)

        execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4", ())
        execute("USE shop", ())
        yield World(
            database=SqlDatabase(
                kind="mysql",
                name="crm",
                host=HOST,
                port=server.port,
                db_name="shop",
                username=SecretRef("world/user"),
                password=SecretRef(WORD),
            ),
            secrets={"world/user": "narthex", WORD: server.password},
            shop=SqlShop(execute=execute, instant="datetime(6) NULL", text="varchar(100)"),
            key=("id",),
        )


def account_world(kind: str) -> Iterator[World]:
    """Yield the database of an account, as its environment variable describes it."""
    parts: dict[str, Any] = json.loads(os.environ[ACCOUNTS[kind]])
    secret = parts.pop("service_account_key" if kind == "bigquery" else "password")
    parts |= {"name": "account"}
    if kind == "bigquery":
        secret = json.dumps(secret)
        parts["service_account_key"] = SecretRef(WORD)
    else:
        parts |= {"username": SecretRef("world/user"), "password": SecretRef(WORD)}
    user = json.loads(os.environ[ACCOUNTS[kind]]).get("username", "")
    secrets = {"world/user": user, WORD: secret}
    yield from _ACCOUNTS[kind](parts, secrets)


def _redshift(parts: dict[str, Any], secrets: dict[str, str]) -> Iterator[World]:
    database = RedshiftDatabase(**parts)
    with psycopg.connect(
        host=database.host,
        port=database.port,
        dbname=database.db_name,
        user=secrets["world/user"],
        password=secrets[WORD],
        client_encoding="utf8",
        autocommit=True,
        cursor_factory=psycopg.ClientCursor,
    ) as connection:
        shop = SqlShop(
            execute=lambda statement, row: connection.execute(statement, row or None),  # type: ignore[arg-type]
            instant="timestamptz",
            text="varchar(100)",
            schema=f"{database.schema}.",
        )
        yield World(database=database, secrets=secrets, shop=shop)


def _snowflake(parts: dict[str, Any], secrets: dict[str, str]) -> Iterator[World]:
    client = load_client(
        "narthex_spark_apps.sources.tables.snowflake", install="narthex[snowflake]"
    )
    database = SnowflakeDatabase(**parts)
    shop = SqlShop(execute=_nothing, instant="timestamp_tz(6)", text="varchar")
    world = World(database=database, secrets=secrets, shop=shop)
    at = world.access(Table(database=database, table="none", cursor="changed"))
    with contextlib.closing(client.connect(database, at.reveal, at.egress)) as connection:
        written = attrs.evolve(
            shop, execute=lambda statement, row: connection.cursor().execute(statement, row or None)
        )
        yield attrs.evolve(world, shop=written)


def _bigquery(parts: dict[str, Any], secrets: dict[str, str]) -> Iterator[World]:
    module = load_client("narthex_spark_apps.sources.tables.bigquery", install="narthex[bigquery]")
    database = BigQueryDataset(**parts)
    shop = SqlShop(execute=_nothing, instant="TIMESTAMP", text="STRING")
    world = World(database=database, secrets=secrets, shop=shop)
    at = world.access(Table(database=database, table="none", cursor="changed"))
    with contextlib.closing(module.connect(at)) as client:

        def execute(statement: str, row: tuple[object, ...]) -> None:
            said = statement.replace("PRIMARY KEY (id)", "PRIMARY KEY (id) NOT ENFORCED")
            for cell in row:
                said = said.replace("?", _literal(cell), 1)
            client.query(said).result()

        yield attrs.evolve(
            world,
            shop=SqlShop(
                execute=execute,
                instant="TIMESTAMP",
                text="STRING",
                number="INT64",
                mark="?",
                schema=f"{database.dataset_id}.",
            ),
        )


def _mongo(parts: dict[str, Any], secrets: dict[str, str]) -> Iterator[World]:
    database = MongoDatabase(**parts)
    with contextlib.closing(
        MongoClient[dict[str, object]](
            mongo_address(database.host).url, username=secrets["world/user"], password=secrets[WORD]
        )
    ) as client:
        yield World(
            database=database,
            secrets=secrets,
            shop=MongoShop(database=client[database.db_name]),
            key=("_id",),
            tick_us=1_000,
            has_schema=False,
        )


def _literal(cell: object) -> str:
    match cell:
        case None:
            return "NULL"
        case dt.datetime():
            return f"TIMESTAMP '{cell.isoformat()}'"
        case _:
            return json.dumps(cell)


def _nothing(_statement: str, _row: tuple[object, ...]) -> None:
    """Stand where a database is not connected yet."""


_ACCOUNTS: Final = {
    "redshift": _redshift,
    "snowflake": _snowflake,
    "bigquery": _bigquery,
    "mongodb": _mongo,
}
