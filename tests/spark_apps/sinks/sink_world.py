"""The shared parts of the tests of sinks: facts, sinks, and targets."""

import datetime as dt
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import psycopg
from typing_extensions import override

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import (
    AssetKind,
    LogShape,
    LogSpec,
    ResolvedAsset,
    SinkJobSpec,
    Trigger,
)
from narthex._ir.connections import Connector, SecretRef, SqlDatabase, Table
from narthex._ir.entities import Sink
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Decimal, Int, List, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_spark_apps.sinks.sink_stage import SinkStage, WrittenPositions
from narthex_stores import IndexFenced, PartitionKey, Record
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

T0 = 1_714_521_600_000_000
KEYED = Schema(
    (
        Field(name="uid", type=Int(), role=Role.KEY),
        Field(name="name", type=Optional(Str())),
        Field(name="price", type=Decimal(2)),
        Field(name="tags", type=List(Str())),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
KEYLESS = Schema(KEYED.fields[1:])


def log_of(schema: Schema) -> LogSpec:
    return LogSpec(
        shape=LogShape.KEYED if schema.keys else LogShape.ROWS,
        keys=schema.keys,
        values=schema.values,
        time_field=schema.timestamp,
    )


def spec_of(
    target: Connector, *, schema: Schema = KEYED, voidable: bool = False, **options: Any
) -> SinkJobSpec:
    return SinkJobSpec(
        dataset="Users",
        sink=Sink(target=target, **options),
        schema=schema,
        log=log_of(schema),
        voidable=voidable,
        trigger=Trigger.STAGE,
        reason="test",
    )


def row(
    uid: int, at: int, version: int, *, name: str | None = "ann", alive: bool = True, void: int = -1
) -> Fact:
    key: tuple[Cell, ...] = (uid,)
    identity = keyed_row_id(
        key_bytes((Column("uid", Int()),), key), T0 + (at if void < 0 else void)
    )
    return Fact(
        row_id=identity,
        version=Version(version.to_bytes(8, "big")),
        event_time=T0 + at if void < 0 else TOMBSTONE_TIME,
        key=key,
        values=(name, 250, ("a", "b")),
        alive=alive and void < 0,
    )


def event(number: int, version: int, *, name: str = "ann", alive: bool = True) -> Fact:
    return Fact(
        row_id=RowId(b"row%d" % number),
        version=Version(version.to_bytes(8, "big")),
        event_time=T0 + number,
        key=(),
        values=(name, 250, ()),
        alive=alive,
    )


def records(spec: SinkJobSpec, facts: Sequence[Fact], *, begin: int = 0) -> list[Record]:
    codec = fact_codec(spec.log)
    return [
        Record("log", 0, begin + n, 0, b"", codec.encode(fact), ()) for n, fact in enumerate(facts)
    ]


def sink_asset(spec: SinkJobSpec, topic: str) -> ResolvedAsset:
    return ResolvedAsset(
        asset_id=3,
        kind=AssetKind.STREAM_JOB,
        physical_name=f"nx_sink_{topic}",
        fingerprint=b"f" * 32,
        spec=spec,
        needs=(
            spark_jobs.topic_need("input:Users", topic, log=spec.log),
            spark_jobs.checkpoint_need(Path(f"sink_{topic}")),
        ),
    )


def send(log: Log, topic: str, spec: SinkJobSpec, facts: Sequence[Fact]) -> None:
    for fact in facts:
        log.send(topic, fact_codec(spec.log).encode(fact))


def run(asset: ResolvedAsset, platform: Settings, count: int) -> None:
    with spark_jobs.live_asset(asset, platform) as running:
        report = spark_jobs.wait_caught_up(running, count)
    assert report.progress["error"] is None


STORY = [
    row(1, 1, 1),
    row(2, 2, 2),
    row(1, 0, 3),
    row(1, 4, 4, name="bob"),
    row(2, 6, 5, alive=False),
]


@attrs.define
class Written(WrittenPositions):
    """Offsets that several runs share, in memory."""

    epoch: int = 0
    shared: dict[PartitionKey, int] = attrs.field(factory=dict)
    newest: list[int] = attrs.field(factory=lambda: [0])

    def under(self, epoch: int) -> "Written":
        return attrs.evolve(self, epoch=epoch)

    @override
    def load(self, places: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        if self.epoch < self.newest[0]:
            raise IndexFenced(f"epoch {self.newest[0]} has taken over")
        return {place: self.shared[place] for place in places if place in self.shared}

    @override
    def keep(self, positions: Mapping[PartitionKey, int]) -> None:
        assert positions, "a broker refuses a commit without offsets"
        self.load(())
        self.newest[0] = self.epoch
        self.shared.update(positions)


def opened(
    asset: ResolvedAsset, platform: Settings, epoch: int, *, written: Written | None = None
) -> SinkStage:
    shared = (written or Written()).under(epoch)
    found = open_sink(asset, platform, written=shared, epoch=epoch)
    assert found is not None
    return found


class RecordingServer:
    """A server that takes calls, and what came: (path, headers, rows)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[tuple[str, dict[str, str], Any]] = []
        self.refuses = 0


@contextmanager
def door() -> Iterator[RecordingServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server_door.calls.append((self.path, dict(self.headers), None))
            self.answer(200)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server_door.calls.append((self.path, dict(self.headers), json.loads(body)))
            if server_door.refuses:
                server_door.refuses -= 1
                return self.answer(503)
            return self.answer(202)

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server_door = RecordingServer(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server_door
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def postgres_of(dsn: str, platform: Settings) -> Table:
    address = urlsplit(dsn)
    login = {"dw/user": str(address.username), "dw/word": str(address.password)}
    mount(platform.secrets_dir, login)
    grant(platform.policy_file, f"{address.hostname}:{address.port}", secrets=login)
    query(dsn, "CREATE SCHEMA shop")
    server = SqlDatabase(
        kind="postgres",
        name="dw",
        host=str(address.hostname),
        port=int(address.port or 0),
        db_name=address.path.strip("/"),
        username=SecretRef("dw/user"),
        password=SecretRef("dw/word"),
    )
    return Table(database=server, table="shop.users")


def query(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(
        dsn.replace("postgresql+psycopg2", "postgresql"), autocommit=True
    ) as connection:
        connection.execute("SET timezone TO 'UTC'")
        found = connection.execute(statement)  # type: ignore[call-overload]
        return found.fetchall() if found.description else []


def instant(at: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(T0 / 1e6, dt.UTC) + dt.timedelta(microseconds=at)
