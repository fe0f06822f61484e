"""The common parts of all kinds of databases, whose tables are polled by a cursor."""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import attrs

from narthex._connectors.egress import Destination
from narthex._connectors.kinds import (
    ConnectorFault,
    ConnectorKind,
    Deletes,
    Input,
    Outlet,
    PolicyFacts,
    RemotePlace,
    SinkKind,
    SourceKind,
    credentials_of,
)
from narthex._ir.connections import Database, Table

_D = TypeVar("_D", bound=Database)
READER: Final = "narthex_spark_apps.sources.tables.source:TableSource"


@attrs.frozen(kw_only=True)
class DatabaseKind(Generic[_D]):
    """The properties of one kind of database.

    Attributes:
        identity: The string that identifies a database externally.
        targets: The servers that receive all credentials of the database.
        what: The parameter that contains these servers.
        is_fixed: Whether these are a cloud's own endpoints.
        client: `module:attribute` of the function that reads its tables.
        writer: `module:attribute` of the writer of its tables; empty if there is none.
    """

    name: str
    title: str
    text: str
    reaches: str
    record: type[_D]
    identity: Callable[[_D], str]
    targets: Callable[[_D], tuple[Destination, ...]]
    client: str
    what: str = "`host`"
    is_fixed: bool = False
    accepts: Callable[[_D], bool] = lambda _: True
    declared_by: tuple[tuple[type, str], ...] = ()
    writer: str = ""
    install: str = ""

    def kind(self) -> ConnectorKind[Table]:
        """Return the kind of its tables."""
        return ConnectorKind(
            name=self.name,
            title=self.title,
            text=self.text,
            record=Table,
            accepts=self._accepts,
            declared_by=self.declared_by,
            policy=PolicyFacts(text=self.reaches, outlets=self._outlets, place=self._place),
            source=SourceKind(
                identity=self._identity,
                input=Input.POLLED,
                reason="a live job polls for new rows",
                has_cursor=True,
                no_members=lambda _: "rows of a table have no envelope",
                faults=_source_faults,
                reader=READER,
                client=self.client,
            ),
            sink=self._sink() if self.writer else None,
            connection=("database",),
            example=("table", "cursor"),
            install=self.install,
        )

    def _sink(self) -> SinkKind[Table]:
        return SinkKind(
            title=self.title,
            where="a table",
            identity=self._identity,
            is_bulk=True,
            writer=self.writer,
            faults=_sink_faults,
            erasing="delete the rows with the keys from the table, and its backups and its history "
            "if it has any",
            deletes=Deletes.ALWAYS,
            keeps="backups and the history of the database, until they end",
        )

    def _database(self, table: Table) -> _D:
        database = table.database
        if not isinstance(database, self.record):
            raise TypeError(f"a table of {self.title} has another database")
        return database

    def _accepts(self, table: Table) -> bool:
        return isinstance(table.database, self.record) and self.accepts(table.database)

    def _identity(self, table: Table) -> str:
        return f"{self.identity(self._database(table))}/{table.table}"

    def _outlets(self, table: Table, endpoint_url: str) -> Iterator[Outlet]:
        del endpoint_url
        yield Outlet(
            what=self.what,
            targets=self.targets(self._database(table)),
            credentials=credentials_of(table.database),
            is_fixed=self.is_fixed,
        )

    def _place(self, table: Table) -> RemotePlace:
        return RemotePlace(kind="table", name=self._identity(table))


def _source_faults(table: Table) -> Iterator[ConnectorFault]:
    if table.cursor is None:
        yield ConnectorFault(
            "a table is read by a cursor, and this source has no cursor",
            'name a column that grows with each change, `.table("…", cursor="…")`',
        )


def _sink_faults(table: Table) -> Iterator[ConnectorFault]:
    if table.cursor is not None:
        yield ConnectorFault("a sink into a table has no `cursor`")
