"""The index in LMDB: what every index promises, and what only several processes can break."""

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from typing_extensions import override

from narthex._ir.assets import IndexSpec
from narthex_stores.indexes import (
    IndexFenced,
    IndexMismatchError,
    IndexMissingError,
    InMemoryIndex,
    LmdbIndex,
)
from narthex_stores.indexes.lmdb.environment import Environment
from tests.stores.indexes.history_suite import HistorySuite
from tests.stores.indexes.index_suite import (
    EMPTY,
    KEYED,
    IndexSuite,
    contribution,
    contributions_spec,
    row,
    same,
)

SPEC = contributions_spec((4, 12, 24), correctable=True)
OLDER = "2cfb5b0141f21d2e6fed11a07d530d6470d64ae1b2d01ad77a379399b1663fcb"
"""The hash that an index of keyed rows stored for its spec before there were parts."""

PREAMBLE = """
import itertools, sys
from pathlib import Path
from narthex_stores.indexes import IndexFenced, LmdbIndex
from tests.stores.indexes.index_suite import EMPTY, contribution, contributions_spec
SPEC = contributions_spec((4, 12, 24), correctable=True)
index = LmdbIndex(Path(sys.argv[1]), SPEC, {arguments})
"""

ENDLESS = """
for number in itertools.count():
    facts = [contribution(b"%d" % n, n, 1, 0.5) for n in range(number * 10, number * 10 + 10)]
    # Half of the former batch moves to another instant, which rebuilds tiles.
    facts += [
        contribution(b"%d" % n, n + 1, 2, 0.5, version=b"\\x01")
        for n in range(max(0, number * 10 - 10), number * 10, 2)
    ]
    index.apply(facts, offsets={("t", 0): number + 1}, epoch=1)
    print(number + 1, flush=True)
"""


@contextmanager
def _child(script: str, path: Path, *, arguments: str = "") -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PREAMBLE.format(arguments=arguments) + textwrap.dedent(script),
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def _opened(spec: IndexSpec, *, newest_rows: int) -> Iterator[LmdbIndex]:
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory), spec, newest_rows=newest_rows)
        try:
            yield index
        finally:
            index.close()


class TestLmdbIndex(IndexSuite, HistorySuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[LmdbIndex]:
        with _opened(spec, newest_rows=3) as index:
            yield index


class TestLmdbIndexThatReadsTiles(IndexSuite, HistorySuite):
    @override
    @contextmanager
    def opened(self, spec: IndexSpec) -> Iterator[LmdbIndex]:
        with _opened(spec, newest_rows=0) as index:
            yield index


def _batch(number: int) -> InMemoryIndex:
    twin = InMemoryIndex(SPEC)
    for each in range(number):
        facts = [contribution(b"%d" % n, n, 1, 0.5) for n in range(each * 10, each * 10 + 10)]
        facts += [
            contribution(b"%d" % n, n + 1, 2, 0.5, version=b"\x01")
            for n in range(max(0, each * 10 - 10), each * 10, 2)
        ]
        twin.apply(facts, offsets={("t", 0): each + 1}, epoch=1)
    return twin


def test_a_killed_writer_leaves_whole_batches_and_nothing_of_the_rest(tmp_path: Path) -> None:
    committed = 0
    for batches in (1, 7, 23):
        with _child(ENDLESS, tmp_path) as child:
            assert child.stdout is not None
            lines = itertools.islice(child.stdout, batches)
            committed = max(committed, *(int(line) for line in lines))
            os.kill(child.pid, signal.SIGKILL)
            child.wait()

        index = LmdbIndex(tmp_path, SPEC)
        contained = index.offsets()["t", 0]
        with index.read() as reader, _batch(contained).read() as expected:
            moments = list(range(0, contained * 10 + 2, 3))
            keys = [("a",)] * len(moments)
            answers = zip(reader.lookup(keys, moments), expected.lookup(keys, moments), strict=True)
            assert all(same(found, wanted) for found, wanted in answers)
        index.close()

        assert contained >= committed


def test_a_zombie_in_another_process_is_fenced(tmp_path: Path) -> None:
    zombie = """
        index.raise_epoch(1)
        print("up", flush=True)
        sys.stdin.readline()
        try:
            index.apply([contribution(b"z", 0)], offsets={("t", 0): 9}, epoch=1)
        except IndexFenced:
            print("fenced", flush=True)
    """
    with _child(zombie, tmp_path) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "up\n"
        index = LmdbIndex(tmp_path, SPEC)
        index.raise_epoch(2)
        child.stdin.write("\n")
        child.stdin.flush()

        assert child.stdout.readline() == "fenced\n"
        assert index.offsets() == {}
        with pytest.raises(IndexFenced):
            index.raise_epoch(1)
        index.close()


def test_a_reader_in_another_process_sees_each_batch_whole(tmp_path: Path) -> None:
    with _child(ENDLESS, tmp_path) as child:
        assert child.stdout is not None
        child.stdout.readline()
        index = LmdbIndex(tmp_path, SPEC, readonly=True)
        for _ in range(20):
            child.stdout.readline()
            with index.read() as reader:
                batches = reader.offsets["t", 0]
                (found,) = reader.lookup([("a",)], [batches * 10 + 1])
                assert found is not None
                assert found.values[-len(EMPTY)] == batches * 10
        index.close()


def test_a_full_map_grows_and_readers_follow(tmp_path: Path) -> None:
    index = LmdbIndex(tmp_path, SPEC, map_size=1 << 17)
    follower = """
        with index.read() as reader:
            print(len(reader.lookup([("a",)], [0])), flush=True)
        sys.stdin.readline()
        with index.read() as reader:
            print(reader.lookup([("a",)], [1 << 40])[0].values[-len(EMPTY)], flush=True)
    """
    with _child(follower, tmp_path, arguments="readonly=True, map_size=1 << 17") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "1\n"
        index.apply([contribution(b"%d" % n, n * 50) for n in range(4000)], offsets={}, epoch=1)

        answer, _ = child.communicate("\n")

    assert answer == "4000\n"
    index.close()


def test_a_snapshot_that_stays_open_does_not_stop_the_writer(tmp_path: Path) -> None:
    index = LmdbIndex(tmp_path, SPEC)
    opened, written = threading.Event(), threading.Event()
    seen: list[int] = []

    def read() -> None:
        with index.read() as reader:
            opened.set()
            assert written.wait(10)
            seen.append(len(reader.offsets))

    reading = threading.Thread(target=read)
    reading.start()
    assert opened.wait(10)
    for number in range(20):
        index.apply([contribution(b"%d" % number, number)], offsets={("t", number): 1}, epoch=1)
    written.set()
    reading.join()

    assert seen == [0]
    assert len(index.offsets()) == 20
    index.close()


def test_an_index_is_never_made_by_opening_it(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")

    for name, readonly in (("gone", False), ("gone", True), ("empty", True), ("link", False)):
        with pytest.raises(IndexMissingError):
            LmdbIndex(tmp_path / name, SPEC, readonly=readonly)


def test_an_index_of_another_spec_is_refused(tmp_path: Path) -> None:
    LmdbIndex(tmp_path, SPEC).close()

    with pytest.raises(IndexMismatchError):
        LmdbIndex(tmp_path, IndexSpec(log=KEYED))
    LmdbIndex(tmp_path, SPEC).close()


def test_committed_state_survives_a_reopening(tmp_path: Path) -> None:
    spec = IndexSpec(log=KEYED)
    index = LmdbIndex(tmp_path, spec)
    index.apply([row("a", 5, b"v", 129, ("x",))], offsets={("t", 0): 1}, epoch=4)
    index.sync()
    index.close()

    again = LmdbIndex(tmp_path, spec)
    with again.read() as reader:
        (found,) = reader.lookup([("a",)], [5])
    assert found is not None
    assert found.values == (129, ("x",))
    with pytest.raises(IndexFenced):
        again.apply([], offsets={}, epoch=3)
    again.close()


@pytest.mark.parametrize(
    ("spec", "is_same"), [(IndexSpec(log=KEYED), True), (contributions_spec((10, 30)), False)]
)
def test_an_index_from_before_tiles_were_divided_is_opened_as_it_is(
    tmp_path: Path, spec: IndexSpec, *, is_same: bool
) -> None:
    environment = Environment(tmp_path, readonly=False)
    with environment.transaction(write=True) as transaction:
        transaction.put(b"spec", bytes.fromhex(OLDER), db=environment.meta)
    environment.close()

    with nullcontext() if is_same else pytest.raises(IndexMismatchError):
        LmdbIndex(tmp_path, spec).close()
