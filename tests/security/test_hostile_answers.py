"""A worker's answer is checked by its metadata before it is decoded."""

import io
import json
import struct
import tracemalloc
from collections.abc import Sequence

import pyarrow as pa
import pytest

from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Bool, Int, List, Optional, Str
from narthex._runtime.workers import Limits, WorkerPool
from narthex._runtime.workers.arrow_messages import BrokenStreamError
from narthex._runtime.workers.frames import (
    GREATEST_ANSWER_HEADER_BYTES,
    LENGTHS,
    BrokenFrameError,
    Frame,
    read_frame,
    render_frame,
)
from narthex._runtime.workers.lookups import LookupRow, answer_lookup
from narthex._runtime.workers.results import read_answer, read_failures, render_table
from narthex.errors import LookupImpossible, UserCodeError
from tests.cases import every
from tests.security.attacks import extractor

MEBIBYTE = 1 << 20
Y = Column("y", Int())


def read(body: bytes, *outputs: Column, rows: int = 2, most_bytes: int = MEBIBYTE) -> pa.Table:
    return read_answer(body, outputs or (Y,), rows=rows, most_bytes=most_bytes)


def stream(
    table: pa.Table, *, batches: int = 1, options: pa.ipc.IpcWriteOptions | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return bytes(sink.getvalue())


def ints(count: int) -> pa.Table:
    return pa.table({"y": pa.array(range(count), pa.int64())})


def claiming(body: bytes, was: int, claimed: int) -> bytes:
    """Return a stream in which each number `was` of the metadata is another one."""
    assert struct.pack("<q", was) in body
    return body.replace(struct.pack("<q", was), struct.pack("<q", claimed))


def test_an_honest_answer_is_read() -> None:
    assert read(render_table(ints(2))).column("y").to_pylist() == [0, 1]
    assert read(render_table(ints(0)), rows=0).num_rows == 0


def test_150_million_rows_in_325_bytes_are_refused_before_they_are_made() -> None:
    body = claiming(stream(pa.table({"y": pa.nulls(77)})), 77, 150_000_000)
    assert len(body) < 400

    tracemalloc.start()
    before = pa.total_allocated_bytes()
    with pytest.raises(BrokenStreamError, match="claims 150000000 rows"):
        read(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert pa.total_allocated_bytes() == before
    assert peak < MEBIBYTE


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_answer_is_refused(codec: str) -> None:
    table = pa.table({"y": pa.array([0] * 100_000, pa.int64())})
    body = stream(table, options=pa.ipc.IpcWriteOptions(compression=codec))
    assert len(body) < 10_000

    with pytest.raises(BrokenStreamError, match="compressed"):
        read(body, rows=100_000)


@every(
    ("body", "reason"),
    [
        (b"", "middle of a message"),
        (b"\xff" * 64, "without a length"),
        (render_table(ints(2))[:-20], "claims more bytes|middle of a message"),
        (render_table(ints(2)) + b"more", "more than one batch"),
        (stream(ints(2), batches=2), "more than one batch"),
        (render_table(ints(3)), "claims 3 rows"),
        (render_table(ints(1)), "it has 1 rows, the input has 2"),
        (render_table(pa.table({"z": pa.array([1, 2])})), "other columns"),
        (render_table(pa.table({"y": pa.array(["1", "2"])})), "other columns"),
        (render_table(pa.table({"y": [1, 2], "z": [1, 2]})), "other columns"),
        (render_table(ints(2).replace_schema_metadata({"pandas": "x"})), "other columns"),
        (
            stream(pa.table({"y": pa.array(["a", "a"]).dictionary_encode()})),
            "something else than a batch",
        ),
        (claiming(render_table(ints(2)), 16, 1 << 40), "claims more bytes"),
        (claiming(render_table(ints(77)), 77, -1), "impossible"),
    ],
)
def test_an_undeclared_column_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BrokenStreamError, match=reason):
        read(body)


def test_bytes_are_bounded() -> None:
    with pytest.raises(BrokenStreamError, match="at most 1000 are allowed"):
        read(render_table(ints(1000)), rows=1000, most_bytes=1000)


def test_cells_inside_of_lists_are_bounded() -> None:
    column = Column("y", List(Bool()))
    body = render_table(pa.table({"y": pa.array([[True] * 200_000], pa.list_(pa.bool_()))}))
    assert len(body) < MEBIBYTE // 8

    with pytest.raises(BrokenStreamError, match="claims more than 131072 cells inside of lists"):
        read(body, column, rows=1)


def test_every_cut_and_every_changed_byte_is_an_answer_or_a_refusal() -> None:
    column = Column("y", Optional(Str()))
    body = render_table(pa.table({"y": pa.array(["a", None], pa.string())}))
    changed = (
        body[:at] + bytes([value]) + body[at + 1 :]
        for at in range(len(body))
        for value in (0, 1, 0x7F, 0x80, 0xFF)
    )

    for one in (*(body[:at] for at in range(len(body))), *changed):
        try:
            assert read(one, column).num_rows == 2
        except BrokenStreamError:
            continue


def frame(header: bytes, body: bytes = b"") -> bytes:
    return LENGTHS.pack(len(header), len(body)) + header + body


def received(sent: bytes) -> Frame:
    return read_frame(
        io.BytesIO(sent).read,
        greatest_body_bytes=MEBIBYTE,
        greatest_header_bytes=GREATEST_ANSWER_HEADER_BYTES,
    )


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (LENGTHS.pack(10, 1 << 60), "too long"),
        (LENGTHS.pack((1 << 16) + 1, 0), "too long"),
        (frame(b"[" * 60_000), "nested too deeply"),
        (frame(b'{"a":' * 10_000 + b"1" + b"}" * 10_000), "nested too deeply"),
        (frame(b'{"kind": [[[[[1]]]]]}'), "nested too deeply"),
        (frame(b'{"kind": ' + b"9" * 60_000 + b"}"), "not JSON"),
        (frame(b"\xff\xfe{\x00}\x00"), "not JSON"),
        (frame(b"[1]"), "not an object"),
        (frame(b"{"), "not JSON"),
    ],
    ids=range(9),
)
def test_a_header_is_short_and_flat(sent: bytes, reason: str) -> None:
    with pytest.raises(BrokenFrameError, match=reason):
        received(sent)


def test_brackets_in_a_text_are_not_depth() -> None:
    header = {"kind": "error", "message": '[[[[[{{{{{ \\" [[[[ "'}

    assert received(render_frame(Frame(dict(header)))).header == header


def test_half_a_character_does_not_pass() -> None:
    found = received(frame(json.dumps({"message": "\ud800", "\udfff": ["\ud800"]}).encode()))

    assert found.header == {"message": "?", "?": ["?"]}


def looked_up(body: bytes) -> Frame:
    def find(
        dataset: str, keys: object, as_of: object
    ) -> tuple[Sequence[Column], Sequence[LookupRow]]:
        raise AssertionError(f"{dataset} was looked up by {keys} as of {as_of}")

    asked = Frame({"kind": "lookup", "dataset": "Users"}, body)
    return answer_lookup(asked, find, rows=2, most_bytes=MEBIBYTE)


INSTANTS = pa.array([0, 0], pa.timestamp("us", tz="UTC"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "middle of a message"),
        (claiming(stream(pa.table({"": pa.nulls(77)})), 77, 150_000_000), "claims 150000000 rows"),
        (
            stream(
                pa.table({"": INSTANTS, "id": [1, 2]}),
                options=pa.ipc.IpcWriteOptions(compression="zstd"),
            ),
            "compressed",
        ),
        (render_table(pa.table({"id": [1, 2]})), "not keys and instants"),
        (render_table(pa.table([INSTANTS, INSTANTS], names=["", ""])), "not keys and instants"),
        (
            render_table(pa.table([INSTANTS] * 40, names=["", *map(str, range(39))])),
            "not keys and instants",
        ),
        (render_table(pa.table({"": [1, 2]})), "instants are not instants"),
        (render_table(pa.table({"": INSTANTS, "id": [[1], [2]]})), "a key is not a number"),
        (
            render_table(pa.table({"": pa.array([1, 2], pa.timestamp("ns", tz="UTC"))})),
            "instants are not instants",
        ),
    ],
    ids=range(9),
)
def test_a_hostile_look_up_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(LookupImpossible, match=reason):
        looked_up(body)


RAW = """
import os, sys, struct, stat
from narthex._runtime.workers.frames import Frame, render_frame
pipe = [p for p in range(3, 64) if stat.S_ISFIFO(MODE(p))][-1]
os.write(pipe, WRITTEN)
return x
""".replace("MODE(p)", "(os.fstat(p).st_mode if IS_OPEN(p) else 0)")
ABOVE = """
import os
def IS_OPEN(place):
    try:
        os.fstat(place)
    except OSError:
        return False
    return True
"""


@pytest.mark.parametrize(
    "written",
    [
        "b'x'",
        "b'\\xff' * 12",
        "struct.pack('>IQ', 10, 1 << 50)",
        "struct.pack('>IQ', 5000, 0) + b'[' * 5000",
        "render_frame(Frame({'kind': 'result'}, b'x' * 300))",
        "render_frame(Frame({'kind': 'result', 'call': '0123456789abcdef'}, b''))",
        "render_frame(Frame({'kind': 'lookup', 'dataset': 'Users'}, b''))",
        "render_frame(Frame({'kind': 'ready', 'sandbox': {}}, b''))",
    ],
)
def test_code_that_writes_to_its_pipe_harms_its_own_call_only(written: str) -> None:
    with WorkerPool(1, Limits(call_timeout_s=5)) as pool:
        with pytest.raises(UserCodeError):
            extractor(pool, RAW.replace("WRITTEN", written), above=ABOVE)

        assert extractor(pool, "return x", given=(3, 4, 5)) == [3, 4, 5]


def test_a_forged_answer_does_not_count_for_a_later_call() -> None:
    forged = (
        "import gc\n"
        "from narthex._runtime.workers.serving import Pipes\n"
        "pipes = next(one for one in gc.get_objects() if type(one) is Pipes)\n"
        "import pyarrow as pa\n"
        "from narthex._runtime.workers.worker_columns import render\n"
        "for _ in range(3):\n"
        "    pipes.send({'kind': 'result'}, render(pa.table({'y': [666, 666]})))\n"
        "return x"
    )
    with WorkerPool(1, Limits(call_timeout_s=5)) as pool:
        first: list[Cell] = extractor(pool, forged)

        with pytest.raises(UserCodeError, match="answer does not match the request"):
            extractor(pool, "return x")

        assert first == [666, 666], "its own answer is the author's to choose"
        assert extractor(pool, "return x") == [1, 2]


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        [[0, "E", "m"]],
        [[0, "E", "m", 1]],
        [[0, "E", "m", [1, 1, 0]]],
        [[0, "E", "m", [1, 1, 0, "9"]]],
        [[2, "E", "m", [1, 1, 0, 9]]],
        [[-1, "E", "m", [1, 1, 0, 9]]],
        [[0, "E", "m", [1, 1, 0, 9]], [0, "E", "m", [1, 1, 0, 9]]],
        [[0, ["E"], "m", [1, 1, 0, 9]]],
        [["0", "E", "m", [1, 1, 0, 9]]],
    ],
)
def test_a_list_of_failed_rows_that_cannot_be_meant_is_refused(told: object) -> None:
    with pytest.raises(BrokenStreamError, match="failed rows"):
        read_failures({"failed": told}, rows=2)
