"""Workers read the data files of the code that they run: the same bytes, and no other file."""

import hashlib
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from narthex import data_files
from narthex._ir.code import CarriedFile, UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Int, Str
from narthex._runtime.workers import CodeCalls, Limits, WorkerPool
from narthex._runtime.workers.kept_files import KEPT_BYTES, provider_of
from narthex._testing.in_process import InProcessCalls
from narthex.errors import UserCodeError

X = Column("A.x", Int())
ABOVE = "from narthex.data_files import carried_file\n\nFILE = carried_file('a.bin')\n\n"
HASH = "import hashlib\nreturn x.astype('string') + hashlib.sha256(FILE.read_bytes()).hexdigest()"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, Limits(call_timeout_s=20)) as found:
        yield found


@pytest.fixture(params=["in a worker", "in process"])
def calls(request: pytest.FixtureRequest, pool: WorkerPool) -> CodeCalls:
    return pool if request.param == "in a worker" else InProcessCalls()


def data(content: bytes, name: str = "a.bin") -> CarriedFile:
    return CarriedFile(name=name, sha256=hashlib.sha256(content).digest(), content=content)


def code(body: str, *files: CarriedFile, above: str = ABOVE) -> UserCode:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = f"{above}def f(cls, ts, x):\n{lines}"
    return UserCode(entry="f", source=source, python="3.11", files=files)


def extract(
    calls: CodeCalls, of: UserCode, numbers: Sequence[int] = (1,), gives: DataType | None = None
) -> list[Cell]:
    (cells,) = calls.extract(
        of,
        name="A.f",
        instants=[0] * len(numbers),
        inputs=[(X, list(numbers))],
        outputs=(Column("y", gives or Str()),),
    )
    return cells


@pytest.mark.parametrize("size", [0, 1, 100_000, data_files.MOST_BYTES])
def test_code_reads_the_bytes_of_its_file(calls: CodeCalls, size: int) -> None:
    content = os.urandom(size)

    assert extract(calls, code(HASH, data(content))) == [f"1{hashlib.sha256(content).hexdigest()}"]


def test_libraries_read_an_opened_file(calls: CodeCalls) -> None:
    body = "import pandas as pd\nreturn x.map(pd.read_csv(FILE.open()).set_index('x')['y'])"
    rates = data(b"x,y\n1,10\n2,20\n")

    assert extract(calls, code(body, rates), [2, 1], Int()) == [20, 10]


def test_one_worker_reads_each_content_of_a_name(calls: CodeCalls) -> None:
    body = "return x.astype('string') + FILE.read_text()"

    found = [extract(calls, code(body, data(text.encode()))) for text in ("old", "new", "old")]

    assert found == [["1old"], ["1new"], ["1old"]]


def test_rows_that_run_alone_read_the_file_too(calls: CodeCalls) -> None:
    of = UserCode(
        entry="f",
        source=ABOVE + "def f(df):\n    return df['n'].map(lambda n: int(FILE.read_text()) // n)\n",
        python="3.11",
        files=(data(b"100"),),
    )
    table = pa.table({"n": pa.array([1, 0, 4], pa.int64())})

    found = calls.isolated(of, "assign", table, (Column("share", Int()),), title="`s`")

    assert found.table.column(0).to_pylist() == [100, 25]
    assert [list(one.places) for one in found.failed] == [[1]]


def test_code_reads_no_file_of_other_code(calls: CodeCalls) -> None:
    extract(calls, code(HASH, data(b"mine")))

    with pytest.raises(UserCodeError, match=r"`a\.bin` does not belong to the code that runs"):
        extract(calls, code(HASH))
    with pytest.raises(UserCodeError, match=r"`a\.bin` does not belong to the code that runs"):
        extract(calls, code(HASH, data(b"mine", name="b.bin")))


def test_a_question_that_code_writes_itself_gets_no_file_of_other_code(pool: WorkerPool) -> None:
    extract(pool, code(HASH, data(b"secret", name="a.bin")))
    body = (
        "import gc\nfrom narthex._runtime.workers.serving import Pipes\n"
        "pipes = next(one for one in gc.get_objects() if isinstance(one, Pipes))\n"
        "kinds = []\nfor name in ('a.bin', '../a.bin', None, 'b.bin'):\n"
        "    pipes.send({'kind': 'file', 'name': name})\n"
        "    answer = pipes.receive()\n"
        "    kinds.append(answer.header['kind'] + answer.body.decode())\n"
        "return x.astype('string') + ' '.join(kinds)"
    )

    found = extract(pool, code(body, data(b"own", name="b.bin")))

    assert found == ["1missing missing missing foundown"]


def test_a_content_is_fetched_once_and_again_when_it_was_forgotten() -> None:
    contents = {"a.bin": os.urandom(8), "b.bin": os.urandom(KEPT_BYTES)}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    asked: list[str] = []

    def fetch(name: str) -> bytes | None:
        asked.append(name)
        return contents.get(name)

    def read(name: str) -> bytes | None:
        return provider_of({"files": hashes}, fetch)(name)

    assert [read(name) for name in ("a.bin", "a.bin", "c.bin")] == [contents["a.bin"]] * 2 + [None]
    assert asked == ["a.bin"]
    assert read("b.bin") == contents["b.bin"]
    assert read("a.bin") == contents["a.bin"]
    assert asked == ["a.bin", "b.bin", "a.bin"]


def test_a_content_with_another_hash_is_not_used() -> None:
    wanted = hashlib.sha256(os.urandom(8)).hexdigest()

    assert provider_of({"files": {"a.bin": wanted}}, lambda _: b"other")("a.bin") is None
