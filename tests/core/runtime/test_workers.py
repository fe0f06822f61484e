"""Authors' code computes, and can do nothing else; what it gives is judged on our side."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Never

import attrs
import pyarrow as pa
import pytest

from narthex._base.origin import Origin
from narthex._formats.arrow import array_of, cells_of
from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import (
    Between,
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
)
from narthex._runtime.workers import CodeCalls, Limits, WorkerPool
from narthex._runtime.workers.calls import RowResults
from narthex._testing.in_process import InProcessCalls
from narthex.errors import SandboxUnavailable, UserCodeError

HERE = Origin(file="features.py", line=100)
X = Column("A.x", Int())


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, Limits(call_timeout_s=20)) as found:
        yield found


def _code(body: str, *, above: str = "") -> UserCode:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"{above}def f(cls, ts, x):\n{lines}"
    return UserCode(entry="f", source=source, python="3.11", origin=HERE)


def _extract(
    pool: WorkerPool, body: str, of: DataType | None = None, above: str = ""
) -> list[Cell]:
    (cells,) = pool.extract(
        _code(body, above=above),
        name="A.f",
        instants=[0, 86_400_000_000],
        inputs=[(X, [1, 2])],
        outputs=(Column("y", of or Int()),),
    )
    return cells


def test_an_extractor_gives_a_column(pool: WorkerPool) -> None:
    assert _extract(pool, "return (x + 1).rename('y')") == [2, 3]


def test_an_extractor_sees_instants_and_nullable_types(pool: WorkerPool) -> None:
    days = _extract(pool, "return ts.dt.day.astype('Int64')")
    kinds = _extract(pool, "return (x * 0).astype('string') + str(x.dtype) + str(ts.dtype)", Str())

    assert days == [1, 2]
    assert kinds == ["0Int64datetime64[us, UTC]"] * 2


def test_an_extractor_may_give_several_columns_in_any_order(pool: WorkerPool) -> None:
    code = _code("import pandas as pd\nreturn pd.DataFrame({'b': x * 2, 'a': x.astype('string')})")

    given = pool.extract(
        code,
        name="A.f",
        instants=[0],
        inputs=[(X, [4])],
        outputs=(Column("a", Str()), Column("b", Int())),
    )

    assert given == [["4"], [8]]


def test_helpers_and_constants_travel_in_the_text(pool: WorkerPool) -> None:
    above = "RATE = (3)\n\ndef tripled(x):\n    return x * RATE\n\n"

    assert _extract(pool, "return tripled(x)", above=above) == [3, 6]


def test_assign_and_filter_work_on_frames(pool: WorkerPool) -> None:
    table = pa.table({"a": [1, 2, None]}, schema=pa.schema([("a", pa.int64())]))
    double = UserCode(entry="g", source="g = (lambda df: df['a'] * 2)\n", python="3.11")
    big = UserCode(entry="h", source="h = (lambda df: df['a'] > 1)\n", python="3.11")

    assigned = pool.assign(double, table, Column("b", Optional(Int())))
    kept = pool.filter(big, table)

    assert assigned.to_pylist() == [2, 4, None]
    assert kept.to_pylist() == [False, True, False]


AUTHORS: Final = """from __future__ import annotations
LIMIT = 3  # rows


def f(cls, ts,
      x):
    '''Describe it.

    In some lines.
    '''
    # A comment.
    names = {
        "a": 1,
    }
    y = (
        x  # the values
        .fillna(0)
        .astype("nothing")
        .abs()
    )
    return y / (
        names["a"]
        + names["b"]
    )
"""


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (AUTHORS, 113, '.astype("nothing")'),
        (AUTHORS.replace("nothing", "float"), 118, '+ names["b"]'),
        (AUTHORS.replace("        .astype", "\n        # again\n        .astype"), 115, ".astype"),
    ],
)
def test_an_error_in_rewritten_text_names_the_authors_line(
    text: str, line: int, says: str, pool: WorkerPool
) -> None:
    code = UserCode(entry="f", source=text, python="3.11", origin=HERE).rewritten()
    assert code.source.count("\n") < text.count("\n") / 2

    with pytest.raises(UserCodeError) as caught:
        pool.extract(
            code,
            name="F.y",
            instants=[0, 0],
            inputs=[(Column("x", Int()), [1, 2])],
            outputs=[Column("y", Int())],
        )

    assert caught.value.origin == Origin(file="features.py", line=line)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("body", "of", "said"),
    [
        ("return x * 1.5", Int(), "column `y` is of type `Float64`, not `int64`"),
        ("return x.astype('string')", Int(), "not `int64`"),
        ("return x.where(x > 1)", Int(), "column `y` has a null"),
        ("return x[:1]", Int(), "has 1 rows, the input has 2"),
        ("return 7", Int(), "it gave a int, not a Series"),
        ("return x", Between(Int(), 0, 1), "column `y` has `2`"),
    ],
)
def test_an_answer_that_is_not_what_was_declared_is_refused(
    body: str, of: DataType, said: str, pool: WorkerPool
) -> None:
    with pytest.raises(UserCodeError) as caught:
        _extract(pool, body, of)

    assert said in caught.value.message


def test_an_error_names_the_authors_line(pool: WorkerPool) -> None:
    with pytest.raises(UserCodeError) as caught:
        _extract(pool, "y = x\nreturn y / missing", above="import math\n\n")

    assert caught.value.origin == Origin(file="features.py", line=102)
    assert "NameError: name 'missing' is not defined at `return y / missing`" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "import socket; socket.socket()",
        "import socket; socket.create_connection(('127.0.0.1', 80), timeout=1)",
        "open('/tmp/narthex-was-here', 'w')",
        "import os; os.unlink('/etc/hostname')",
        "import os; os.mkdir('/tmp/narthex-was-here')",
        "import os; os.fork()",
        "import os; os.execv('/bin/true', ['true'])",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.kill(os.getppid(), 9)",
        "import threading; threading.Thread(target=print).start()",
        "import ctypes; assert ctypes.CDLL(None).fork() >= 0",
        "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "bytearray(64 << 30)",
        "import sys; sys.exit(3)",
    ],
)
def test_code_can_do_nothing_but_compute(body: str, pool: WorkerPool) -> None:
    assert pool.warm().is_complete

    with pytest.raises(UserCodeError):
        _extract(pool, f"{body}\nreturn x")

    assert _extract(pool, "return x") == [1, 2]


def test_code_reads_no_file_but_libraries(pool: WorkerPool) -> None:
    with pytest.raises(UserCodeError, match="FileNotFoundError"):
        _extract(pool, "open('/etc/passwd').read()\nreturn x")


def test_code_finds_no_secret_in_its_environment(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARTHEX_TOKEN", "secret")

    names = _extract(pool, "import os\nreturn x.astype('string') + ','.join(os.environ)", Str())

    assert "NARTHEX" not in str(names)


def test_a_worker_that_ends_or_is_silent_is_replaced() -> None:
    with WorkerPool(1, Limits(call_timeout_s=1.5)) as pool:
        pool.warm()
        for body in ("import os; os._exit(3)", "while True: pass"):
            with pytest.raises(UserCodeError, match="the worker was lost"):
                _extract(pool, f"{body}\nreturn x")

            assert _extract(pool, "return x") == [1, 2]


def test_threads_share_a_pool(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: _extract(pool, "return x"), range(20)))

    assert answers == [[1, 2]] * 20


def test_a_worker_outlives_its_first_calling_thread() -> None:
    with WorkerPool(1) as pool:
        body = "import sys\nsys.runs = getattr(sys, 'runs', 0) + 1\nreturn x * 0 + sys.runs"
        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(_extract, pool, body).result()

        assert first == [1, 1]
        assert _extract(pool, body) == [2, 2]


@attrs.frozen
class Row:
    values: tuple[Cell, ...]
    is_found: bool


def _find(
    dataset: str, keys: Mapping[str, Sequence[Cell]], as_of: Sequence[int]
) -> tuple[list[Column], list[Row]]:
    assert (dataset, list(as_of)) == ("Users", [0, 86_400_000_000])
    found = [Row((f"u{key}" if key == 1 else None,), is_found=key == 1) for key in keys["id"]]
    return [Column("name", Str())], found


def test_an_extractor_looks_rows_up() -> None:
    above = "from narthex.lookups import reference\nUsers = reference('Users')\n\n"
    body = (
        "frame, found = Users.lookup(ts, id=x, fields=['name'])\n"
        "return frame['name'].fillna('?') + found.astype('string')"
    )
    with WorkerPool(1) as pool:
        (names,) = pool.extract(
            _code(body, above=above),
            name="A.f",
            instants=[0, 86_400_000_000],
            inputs=[(X, [1, 2])],
            outputs=(Column("y", Str()),),
            find=_find,
        )

    assert names == ["u1True", "?False"]


POINT = Struct("P", (StructField("at", Datetime()), StructField("d", Decimal(2))))


class _CallerGoneError(Exception):
    """Somebody who answers lookups will not."""


def test_a_pool_that_is_killed_ends_the_running_call_and_refuses_later_ones() -> None:
    begun = threading.Event()

    def find(*_: object) -> tuple[list[Column], list[Row]]:
        begun.set()
        return [Column("name", Str())], [Row((None,), is_found=False)]

    source = (
        "from narthex.lookups import reference\nUsers = reference('Users')\n"
        "def f(cls, ts, x):\n    Users.lookup(ts, uid=x)\n    while True:\n        pass\n"
    )
    code = UserCode(entry="f", source=source, python="3.11", origin=HERE)

    def run() -> object:
        outputs = (Column("y", Bool()),)
        given = [(X, [1])]
        return single.extract(
            code, name="A.f", instants=[0], inputs=given, outputs=outputs, find=find
        )

    with WorkerPool(1, Limits(call_timeout_s=600)) as single, ThreadPoolExecutor(2) as threads:
        running = threads.submit(run)
        assert begun.wait(60)
        waiting = threads.submit(_extract, single, "return x")
        single.kill()

        with pytest.raises(UserCodeError, match="the worker was lost"):
            running.result(timeout=60)
        for call in (waiting, threads.submit(_extract, single, "return x")):
            with pytest.raises(SandboxUnavailable, match="its call was stopped"):
                call.result(timeout=60)


def test_a_call_that_is_broken_off_leaves_no_worker_behind() -> None:
    def break_off(*_: object) -> Never:
        raise _CallerGoneError

    source = (
        "from narthex.lookups import reference\nUsers = reference('Users')\n"
        "def f(cls, ts, x):\n    return Users.lookup(ts, uid=x)[1]\n"
    )
    code = UserCode(entry="f", source=source, python="3.11", origin=HERE)
    before = set(_children())
    with WorkerPool(1) as single:
        with pytest.raises(_CallerGoneError):
            single.extract(
                code,
                name="A.f",
                instants=[0],
                inputs=[(X, [1])],
                outputs=(Column("y", Bool()),),
                find=break_off,
            )

        assert set(_children()) - before == set()
        assert _extract(single, "return x") == [1, 2]


def _children() -> list[int]:
    """Return the processes that this one started and that live."""
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [
        int(pid) for file in (tasks if found.exists() else ()) for pid in file.read_text().split()
    ]


@pytest.mark.parametrize(
    ("of", "cells"),
    [
        (Optional(Int()), [1, None]),
        (Float(), [1.5, -0.0]),
        (Bool(), [True, False]),
        (Datetime(), [0, 1_700_000_000_123_456]),
        (Date(), [0, 19_000]),
        (Decimal(2), [150, -1]),
        (List(Optional(Str())), [("a", None), ()]),
        (List(Date()), [(1, 2), (3,)]),
        (Map(Decimal(1)), [{"a": 15}, {}]),
        (Optional(POINT), [{"at": 5, "d": 125}, None]),
    ],
)
def test_cells_come_back_from_arrow_as_they_were(of: DataType, cells: list[Cell]) -> None:
    assert cells_of(array_of(cells, of), of) == cells


def test_values_pass_through_code_unchanged(pool: WorkerPool) -> None:
    samples: list[tuple[DataType, Cell]] = [
        (Float(), 1.5),
        (Datetime(), 1_700_000_000_123_456),
        (Date(), 19_000),
        (Decimal(2), 150),
        (List(Int()), (1, 2)),
        (Map(Int()), {"a": 1}),
        (POINT, {"at": 5, "d": 125}),
    ]
    for of, cell in samples:
        (cells,) = pool.extract(
            _code("return x"),
            name="A.f",
            instants=[0],
            inputs=[(Column("A.x", of), [cell])],
            outputs=(Column("y", of),),
        )

        assert cells == [cell]


def _lambda(text: str) -> UserCode:
    source = f"s = (lambda df: {text})\n"
    return UserCode(entry="s", source=source, python="3.11", origin=HERE)


SHARE = _lambda("df['n'].map(lambda n: {'x': 100 // n}['x' * (n < 9)]).astype('Int64')")


def _isolated(calls: CodeCalls, code: UserCode, numbers: Sequence[int]) -> RowResults:
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    return calls.isolated(code, "assign", table, (Column("share", Int()),), title="`s`")


def test_rows_on_which_code_fails_are_found_and_others_keep_their_results(pool: WorkerPool) -> None:
    numbers = [1, 0, 4, 9, 5, *[2] * 60, 0]
    for calls in (pool, InProcessCalls()):
        found = _isolated(calls, SHARE, numbers)

        failed = {place: one.error for one in found.failed for place in one.places}
        assert sorted(failed) == [1, 3, 65]
        assert "ZeroDivisionError: integer division" in failed[1].message
        assert "KeyError: ''" in failed[3].message
        assert failed[65].origin == HERE
        assert list(found.places) == [at for at in range(66) if at not in failed]
        assert found.table.column(0).to_pylist() == [100 // numbers[at] for at in found.places]


@pytest.mark.parametrize(
    ("numbers", "failed", "passed"), [([1, 2, 3], [2], [1, 2]), ([3, 4], [0, 1], [])]
)
def test_values_that_the_type_refuses_fail_their_rows_alone(
    numbers: list[int], failed: list[int], passed: list[int], pool: WorkerPool
) -> None:
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    column = Column("n", Between(Int(), 0, 2))

    found = pool.isolated(_lambda("df['n']"), "assign", table, (column,), title="`s`")

    assert [place for one in found.failed for place in one.places] == failed
    assert "column `n` has `3`" in found.failed[0].error.message
    assert found.table.column(0).to_pylist() == passed


def test_long_messages_of_many_rows_fit_into_an_answer(pool: WorkerPool) -> None:
    code = _lambda(
        "[1 / 0 for n in df['n']] if len(df) > 1 else [][str(df['n'][0]) + '\U0001f600' * 4000]"
    )

    found = _isolated(pool, code, range(100))

    assert len(found.failed) == 100
    assert all(one.error.message.startswith("`s` failed: TypeError") for one in found.failed)


def test_a_row_that_ends_its_worker_fails_alone(pool: WorkerPool) -> None:
    code = _lambda("df['n'] if df['n'].all() else __import__('os')._exit(1)")

    found = _isolated(pool, code, [3, 4, 0, 5])

    assert [list(one.places) for one in found.failed] == [[2]]
    assert found.failed[0].error.is_worker_lost
    assert found.table.column(0).to_pylist() == [3, 4, 5]


def test_no_row_fails_because_no_worker_can_be_started() -> None:
    with (
        WorkerPool(1, is_reduced=False, without=("seccomp",)) as pool,
        pytest.raises(SandboxUnavailable),
    ):
        _isolated(pool, SHARE, [1, 2])
