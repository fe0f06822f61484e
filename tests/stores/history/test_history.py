import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.fs import DeltaStorageHandler
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from narthex._formats.avro.codec import fact_codec
from narthex._ir import types
from narthex._ir.assets import VALIDITY_COLUMNS, AssetSpec, HistorySpec, LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.schema import Column
from narthex_stores import (
    Adapter,
    ForeignAssetError,
    HistoryAdapter,
    HistorySnapshot,
    HistoryTable,
    LogRow,
    Record,
    alive,
    below,
    fact_schema,
    history_rows,
    newest,
    next_offsets,
    public,
    record_table,
    render_fact,
    to_rows,
    to_table,
)
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite

LOG = LogSpec(
    shape=LogShape.KEYED,
    keys=(Column("user", types.Str()),),
    values=(Column("amount", types.Int()),),
    time_field="at",
)
SPEC = HistorySpec(log=LOG)
WIDE = LogSpec(
    shape=LogShape.ROWS,
    keys=(),
    values=(
        Column("price", types.Decimal(2)),
        Column("prices", types.List(types.Optional(types.Decimal(1)))),
        Column("counts", types.Map(types.Int())),
        Column("rates", types.Map(types.Decimal(3))),
        Column("vector", types.Embedding(2)),
        Column("flag", types.Optional(types.Bool())),
        Column("raw", types.Bytes()),
        Column("day", types.Date()),
        Column("seen", types.Datetime()),
        Column(
            "nested",
            types.Struct(
                "Nested",
                (
                    types.StructField("a", types.Float()),
                    types.StructField("b", types.Optional(types.Decimal(4))),
                ),
            ),
        ),
    ),
    time_field="at",
)
CELLS: tuple[Cell, ...] = (
    -12345,
    (15, None),
    {"x": 1, "y": 2},
    {"z": 1234},
    (0.5, -1.0),
    None,
    b"\x00\xff",
    15000,
    1_600_000_000_000_001,
    {"a": 2.5, "b": -7},
)


def row(  # noqa: PLR0913 - a fact has many sides
    offset: int,
    user: str = "u",
    amount: int | None = 1,
    *,
    partition: int = 0,
    at: int = 100,
    version: bytes | None = None,
    alive: bool = True,
) -> LogRow:
    return LogRow(
        partition,
        offset,
        Fact(
            row_id=RowId(f"{user}@{at}".encode()),
            version=Version(version or offset.to_bytes(8)),
            event_time=at,
            key=(user,),
            values=(amount,),
            alive=alive,
        ),
    )


def record(of: LogRow) -> Record:
    value = fact_codec(LOG).encode(of.fact)
    return Record("t", of.partition, of.offset, 0, None, value, ())


@pytest.fixture
def path(tmp_path: Path) -> str:
    HistoryAdapter(history_dir=str(tmp_path)).create("nx_h", SPEC, asset_id=1, timeout_s=TIMEOUT_S)
    return str(tmp_path / "nx_h")


@pytest.fixture
def table(path: str) -> HistoryTable:
    return HistoryTable(path, SPEC)


class TestHistoryAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self, tmp_path: Path) -> Adapter:
        return HistoryAdapter(history_dir=str(tmp_path / "history"))

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return SPEC

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return HistorySpec(log=WIDE)


def test_a_new_table_holds_nothing_and_has_read_nothing(table: HistoryTable) -> None:
    assert table.scan().num_rows == 0
    assert table.offsets() == {}
    assert table.files() == []


def test_a_table_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HistoryTable(tmp_path / "none", SPEC)

    assert list(tmp_path.iterdir()) == []


def test_a_table_of_another_log_is_refused(path: str) -> None:
    with pytest.raises(ForeignAssetError):
        HistoryTable(path, HistorySpec(log=WIDE))


def test_records_come_back_as_the_facts_that_they_are(table: HistoryTable) -> None:
    rows = [row(0, "a"), row(1, "b", None, alive=False), row(0, "c", partition=3)]
    records = [record(one) for one in rows]

    table.append_table(record_table(LOG, records), next_offsets=next_offsets(records))

    assert to_rows(LOG, table.scan()) == rows
    assert table.offsets() == {0: 2, 3: 1}


def test_an_append_that_comes_twice_adds_once(table: HistoryTable) -> None:
    rows = [row(0), row(1, at=200)]
    table.append_rows(rows)

    again = table.append_rows(rows)

    assert (again.rows, again.repeated) == (0, 2)
    assert table.scan().num_rows == 2


def test_an_append_that_overlaps_adds_the_rest(table: HistoryTable) -> None:
    table.append_rows([row(0), row(1, at=200)])

    added = table.append_rows([row(1, at=200), row(2, at=300)])

    assert (added.rows, added.repeated) == (1, 1)
    assert table.offsets() == {0: 3}


def test_a_fenced_writer_adds_nothing(path: str) -> None:
    zombie, owner = HistoryTable(path, SPEC), HistoryTable(path, SPEC)
    owner.append_rows([row(0), row(1, at=200), row(2, at=300)])

    added = zombie.append_rows([row(0), row(1, at=200)])

    assert added.rows == 0
    assert owner.offsets() == {0: 3}
    assert owner.scan().num_rows == 3


def test_writers_that_race_add_each_offset_once(path: str) -> None:
    batches = [[row(i * 5 + j, at=i * 5 + j) for j in range(10)] for i in range(8)]
    start = threading.Barrier(3)

    def write() -> None:
        mine = HistoryTable(path, SPEC)
        start.wait()
        for batch in batches:
            mine.append_rows(batch)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    held = HistoryTable(path, SPEC).scan(columns=["offset"]).column("offset").to_pylist()
    assert sorted(held) == list(range(45))


def test_offsets_move_on_where_there_was_nothing_to_keep(table: HistoryTable) -> None:
    table.append_table(to_table(LOG, []), next_offsets={1: 9})

    assert table.offsets() == {1: 9}


def test_a_row_past_its_next_offset_is_a_mistake(table: HistoryTable) -> None:
    with pytest.raises(ValueError, match="next offset"):
        table.append_table(to_table(LOG, [row(5)]), next_offsets={0: 5})


def test_a_scan_keeps_a_span_of_event_time_and_what_was_read(table: HistoryTable) -> None:
    table.append_rows([row(0, at=100), row(1, at=200), row(0, "b", at=200, partition=1)])

    spanned = table.scan(columns=["offset"], from_us=100, to_us=200)
    read = table.scan(offsets={0: 2})
    arrived = table.scan(columns=["partition", "offset"], since={0: 1}, offsets={0: 2, 1: 1})
    of_row = table.scan(columns=["offset"], row_ids=[b"b@200"])

    assert arrived.num_rows == 2
    assert of_row.num_rows == 1
    assert spanned.to_pylist() == [{"offset": 0}]
    assert [one.offset for one in to_rows(LOG, read)] == [0, 1]


def test_compaction_keeps_facts_and_offsets(table: HistoryTable) -> None:
    for offset in range(4):
        table.append_rows([row(offset, at=offset)])
    before = sorted(table.scan().to_pylist(), key=lambda one: one["offset"])

    replaced = table.compact(keep=timedelta(0))

    assert replaced == 4
    assert len(table.files()) == 1
    assert sorted(table.scan().to_pylist(), key=lambda one: one["offset"]) == before
    assert table.offsets() == {0: 4}
    assert table.append_rows([row(3, at=3)]).rows == 0


def test_a_snapshot_has_the_states_below_its_offsets_after_writes_and_compaction(
    table: HistoryTable,
) -> None:
    assert table.snapshot() == HistorySnapshot(offsets={}, files=(), states=0, storage={})
    for offset in range(3):
        table.append_rows([row(offset, at=offset)])

    snapshot = table.snapshot()
    table.append_rows([row(3, at=3)])
    table.compact()

    read = [to_rows(LOG, pq.read_table(one).cast(fact_schema(LOG))) for one in snapshot.files]
    assert (snapshot.offsets, snapshot.states) == ({0: 3}, 3)
    assert sorted(one.offset for rows in read for one in rows) == [0, 1, 2]
    assert table.snapshot().offsets == {0: 4}


def two_hours_older(path: Path) -> None:
    then = path.stat().st_mtime - 2 * 3_600
    os.utime(path, (then, then))


def test_a_file_that_no_write_came_to_name_goes_and_no_other(
    path: str, table: HistoryTable
) -> None:
    for offset in range(4):
        table.append_rows([row(offset, at=offset)])
    named = {Path(one).name for one in table.files()}
    lost = Path(path) / "part-of-a-write-that-died.parquet"
    lost.write_bytes(b"")
    for file in Path(path).glob("*.parquet"):
        two_hours_older(file)

    table.compact(keep=timedelta(hours=1))

    left = {file.name for file in Path(path).glob("*.parquet")}
    assert lost.name not in left
    assert named < left


def test_the_log_of_a_table_forgets_what_a_checkpoint_has(path: str, table: HistoryTable) -> None:
    log = Path(path) / "_delta_log"
    for offset in range(8):
        table.append_rows([row(offset, at=offset)])
    table.compact()
    for entry in log.iterdir():
        two_hours_older(entry)
    table.append_rows([row(8, at=8)])

    table.compact()

    assert not (log / f"{3:020}.json").exists()
    again = HistoryTable(path, SPEC)
    assert again.offsets() == table.offsets()
    assert again.scan().num_rows == 9


def test_every_type_comes_back_as_it_went() -> None:
    fact = Fact(row_id=RowId(b"r"), version=Version(b"v"), event_time=5, key=(), values=CELLS)
    dead = Fact(
        row_id=RowId(b"r"),
        version=Version(b"w"),
        event_time=5,
        key=(),
        values=(None,) * len(CELLS),
        alive=False,
    )
    rows = [LogRow(0, 0, fact), LogRow(0, 1, dead)]

    assert to_rows(WIDE, to_table(WIDE, rows)) == rows


def test_every_type_comes_back_from_the_disk(tmp_path: Path) -> None:
    spec = HistorySpec(log=WIDE)
    HistoryAdapter(history_dir=str(tmp_path)).create("nx_w", spec, asset_id=1, timeout_s=TIMEOUT_S)
    wide = HistoryTable(tmp_path / "nx_w", spec)
    fact = Fact(row_id=RowId(b"r"), version=Version(b"v"), event_time=5, key=(), values=CELLS)

    wide.append_rows([LogRow(0, 0, fact)])

    assert to_rows(WIDE, wide.scan()) == [LogRow(0, 0, fact)]


def test_the_newest_state_of_a_row_counts_and_a_dead_one_is_absent() -> None:
    table = to_table(
        LOG,
        [
            row(0, "a", 1),
            row(1, "a", 2),
            row(2, "b", 1),
            row(3, "b", None, alive=False),
            row(4, "c", 9, version=b"\x01"),
            row(5, "c", 8, version=b"\x00\x02"),
        ],
    )

    standing = public(LOG, alive(table)).to_pylist()

    assert [(one["user"], one["amount"]) for one in standing] == [("a", 2), ("c", 9)]


def test_public_columns_have_public_names_and_instants() -> None:
    shown = public(LOG, to_table(LOG, [row(0, at=1)]))

    assert shown.column_names == ["user", "amount", "at"]
    assert shown.schema.field("at").type == pa.timestamp("us", tz="UTC")


def test_no_facts_have_no_state() -> None:
    empty = to_table(LOG, [])

    assert alive(empty).num_rows == 0
    assert public(LOG, empty).num_rows == 0
    assert below(empty, {}).num_rows == 0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_state_is_that_of_the_set_however_its_facts_came(
    drawn: list[tuple[str, int, bool]], rng: "object"
) -> None:
    rows = [
        row(offset, user, at=at, alive=stands) for offset, (user, at, stands) in enumerate(drawn)
    ]
    shuffled = rows + rows[::2]
    shuffle: Callable[[list[LogRow]], None] = getattr(rng, "shuffle")  # noqa: B009
    shuffle(shuffled)

    assert newest(to_table(LOG, shuffled)).equals(newest(to_table(LOG, rows)))


def test_the_newest_rows_are_shown_under_public_names(path: str, table: HistoryTable) -> None:
    table.append_rows(
        [row(0, "a", 1, at=1), row(1, "a", 2, at=3), row(2, "b", 5, at=2)]
        + [row(3 + n, "c", n, at=4, alive=n != 9) for n in range(10)]
    )

    assert history_rows(path, LOG, newest=2) == [
        {"user": "a", "amount": 2, "at": "1970-01-01T00:00:00.000003Z"},
        {"user": "b", "amount": 5, "at": "1970-01-01T00:00:00.000002Z"},
    ]
    assert len(history_rows(path, LOG, newest=50)) == 3


def test_an_empty_history_has_no_rows_and_no_newest_instant(path: str, table: HistoryTable) -> None:
    assert history_rows(path, LOG, newest=5) == []
    assert table.newest_event_time() is None


def test_a_retracted_row_is_absent_and_has_no_event_time(path: str, table: HistoryTable) -> None:
    gone = row(1, "a", None, at=300, alive=False)
    taken_back = attrs.evolve(gone, fact=attrs.evolve(gone.fact, event_time=TOMBSTONE_TIME))
    table.append_rows([row(0, "a", 1, at=300), row(0, "b", 2, at=100, partition=1)])

    table.append_rows([taken_back])

    shown = [{"user": "b", "amount": 2, "at": "1970-01-01T00:00:00.000100Z"}]
    assert history_rows(path, LOG, newest=1) == shown
    assert history_rows(path, LOG, newest=9) == shown
    assert alive(table.scan(from_us=200, to_us=400)).num_rows == 0
    assert [one.offset for one in to_rows(LOG, alive(table.scan(offsets={0: 1})))] == [0]
    assert table.newest_event_time() == 300
    table.append_rows([row(2, "a", 3, at=300)])
    assert [one["amount"] for one in history_rows(path, LOG, newest=9)] == [3, 2]


def test_validity_intervals_are_not_public() -> None:
    log = attrs.evolve(LOG, shape=LogShape.CONTRIBUTIONS, values=(*LOG.values, *VALIDITY_COLUMNS))
    alone = row(0, "a", 7).fact
    fact = attrs.evolve(alone, values=(*alone.values, 100, None))

    shown = public(log, to_table(log, [LogRow(0, 0, fact)]))

    assert shown.column_names == ["user", "amount", "at"]
    assert render_fact(log, fact) == {
        "user": "a",
        "amount": 7,
        "at": "1970-01-01T00:00:00.000100Z",
    }


def test_no_file_of_a_scan_needs_the_interpreter(
    table: HistoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's threads may close files after a scan, and a process that ends then would abort."""
    opened: list[str] = []
    open_in_python = DeltaStorageHandler.open_input_file

    def recorded(handler: DeltaStorageHandler, path: str) -> pa.PythonFile:
        opened.append(path)
        return open_in_python(handler, path)

    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", recorded)
    table.append_rows([row(0)])
    assert table.scan().num_rows == 1
    assert table.spans(states=1, offsets={0: 1}) == ((None, None),)
    assert opened == []
