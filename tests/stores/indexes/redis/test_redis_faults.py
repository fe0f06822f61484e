"""An index on Redis servers stays right with several writers, after crashes and lost servers."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._aggregates.tiles import DIVIDED_ABOVE
from narthex._formats.avro import fact_codec
from narthex._ir.assets import IndexSpec
from narthex._ir.facts import Cell, Fact, Version
from narthex_stores import Crash, PermanentError, TransientError, column_reader
from narthex_stores.indexes import (
    IndexFenced,
    IndexMismatchError,
    IndexMissingError,
    IndexPartLostError,
    InMemoryIndex,
    LookupResult,
    RedisIndex,
    RedisIndexAdapter,
    RedisServers,
    WrongShapeError,
    parse_address,
)
from narthex_stores.indexes.redis.servers import Reply, ServerCall, Servers
from tests.redis_servers import RedisNode, redis_cluster, redis_server, require_redis
from tests.stores.indexes.history_suite import with_history
from tests.stores.indexes.index_suite import (
    CONTRIBUTIONS,
    KEYED,
    contribution,
    contributions_spec,
    row,
    same,
)

pytestmark = [pytest.mark.redis, pytest.mark.slow]

TIMEOUT_S = 10.0
PLAIN = contributions_spec((4, 12, 24))
CORRECTABLE = contributions_spec((4, 12, 24), correctable=True)
WITH_HISTORY = with_history(CORRECTABLE, 24)
KEYED_WITH_HISTORY = with_history(IndexSpec(log=KEYED), 12)
MOMENTS = (0, 3, 5, 9, 14, 30, 60)
USERS = ("a", "b", "c", "d", "e")
_numbers = itertools.count(1)
_contributions = st.builds(
    lambda number, amount, version, alive: contribution(
        b"r%d" % number,
        7 * number % 40,
        amount,
        None if amount is None else amount / 8,
        user=USERS[number % 5],
        version=bytes([version]),
        alive=alive,
    ),
    st.integers(0, 12),
    st.none() | st.integers(-3, 3),
    st.integers(0, 2),
    st.sampled_from([True, True, False]),
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    require_redis()
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield RedisServers(parse_address(nodes[0].url))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RedisNode]:
    require_redis()
    with redis_server(tmp_path / "redis") as node:
        yield node


def created(servers: Servers, spec: IndexSpec) -> str:
    """Create an index; return its name."""
    name = f"nx_fault_{next(_numbers)}"
    RedisIndexAdapter(connect=lambda: servers).create(name, spec, asset_id=1, timeout_s=TIMEOUT_S)
    return name


@attrs.define(eq=False)
class FailingServers:
    """Servers whose client stops once it has sent a number of calls."""

    servers: RedisServers
    left: int

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        sent, self.left = calls[: self.left], self.left - len(calls)
        replies = self.servers.run(sent) if sent else []
        if self.left < 0:
            raise Crash(f"after {len(sent)} of {len(calls)} calls")
        return replies

    def one_on_each(self, keys: Sequence[bytes]) -> list[bytes]:
        return self.servers.one_on_each(keys)

    def names(self, key: bytes) -> str:
        return self.servers.names(key)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        return self.servers.scan(pattern)


def first_rows() -> list[Fact]:
    return [contribution(b"%d" % n, n, n, n / 8, user=USERS[n % 5]) for n in range(15)]


def corrections() -> list[Fact]:
    """Rows that move to other groups and instants, or vanish, and new ones."""
    moved = [
        contribution(b"%d" % n, n + 2, 7, 0.5, user=USERS[(n + 1) % 5], version=b"\x01")
        for n in range(0, 10, 2)
    ]
    gone = [
        contribution(b"%d" % n, n, user=USERS[n % 5], version=b"\x01", alive=False) for n in (1, 3)
    ]
    return [*moved, *gone, *(contribution(b"new%d" % n, n, user=USERS[n]) for n in range(5))]


def without_the_newest() -> list[Fact]:
    """The same, and the newest rows vanish."""
    gone = [
        contribution(b"%d" % n, n, user=USERS[n % 5], version=b"\x01", alive=False)
        for n in (13, 14)
    ]
    return [*corrections(), *gone]


def later_corrections() -> list[Fact]:
    """Rows that move on from where `corrections` moved them."""
    return [
        contribution(b"%d" % n, n + 3, 9, 1.5, user=USERS[(n + 3) % 5], version=b"\x02")
        for n in range(0, 10, 2)
    ]


def late_rows() -> list[Fact]:
    return [contribution(b"late%d" % n, n, 3, 0.5, user=USERS[n % 5]) for n in range(10)]


def keyed_rows(version: bytes = b"\x00") -> list[Fact]:
    return [row(USERS[n % 5], 3 * n, version, n, ()) for n in range(10)]


def keyed_corrections() -> list[Fact]:
    """Absences in place of the newest rows, and other cells in place of older ones."""
    gone = [row(USERS[n % 5], 3 * n, b"\x01", alive=False) for n in range(6, 10)]
    return [*gone, *(row(USERS[n], 3 * n, b"\x01", -n, ()) for n in range(3))]


def more_keyed_corrections() -> list[Fact]:
    """Rows where there were absences, but for the newest."""
    return [row(USERS[n % 5], 3 * n, b"\x02", 9, ()) for n in (6, 7)]


def newest_row_of(index: RedisIndex | InMemoryIndex) -> int | None:
    with index.read() as reader:
        return reader.newest


def answers(index: RedisIndex | InMemoryIndex) -> list[LookupResult | None]:
    asked = [((user,), at) for user in USERS for at in MOMENTS]
    with index.read() as reader:
        return reader.lookup([key for key, _ in asked], [at for _, at in asked])


def twin(spec: IndexSpec, *batches: Sequence[Fact]) -> list[LookupResult | None]:
    return answers(twin_index(spec, *batches))


def twin_index(spec: IndexSpec, *batches: Sequence[Fact]) -> InMemoryIndex:
    index = InMemoryIndex(spec)
    for batch in batches:
        index.apply(batch, offsets={}, epoch=1)
    return index


def assert_same(
    found: Sequence[LookupResult | None], wanted: Sequence[LookupResult | None]
) -> None:
    assert [same(a, b) for a, b in zip(found, wanted, strict=True)] == [True] * len(wanted)


@pytest.mark.parametrize("newest_rows", [0, 32])
@pytest.mark.parametrize(
    ("spec", "first", "second", "third"),
    [
        (PLAIN, first_rows(), late_rows(), []),
        (CORRECTABLE, first_rows(), corrections(), later_corrections()),
        (WITH_HISTORY, first_rows(), without_the_newest(), later_corrections()),
        (KEYED_WITH_HISTORY, keyed_rows(), keyed_corrections(), more_keyed_corrections()),
    ],
    ids=["plain", "correctable", "correctable with a history", "keyed with a history"],
)
def test_a_replay_after_a_crash_at_any_call_equals_no_crash(
    servers: RedisServers,
    spec: IndexSpec,
    first: list[Fact],
    second: list[Fact],
    third: list[Fact],
    newest_rows: int,
) -> None:
    wanted = twin_index(spec, first, second, third)
    for calls in itertools.count():
        name = created(servers, spec)
        RedisIndex(servers, name, spec).apply(first, offsets={("t", 0): 15}, epoch=1)
        # One more call opens the index.
        failing = FailingServers(servers, calls + 1)
        crashed = RedisIndex(failing, name, spec)
        try:
            crashed.apply(second, offsets={("t", 0): 30}, epoch=1)
        except Crash:
            has_crashed = True
        else:
            has_crashed = False
        again = RedisIndex(servers, name, spec, newest_rows=newest_rows)
        again.raise_epoch(2)
        assert again.offsets() == {("t", 0): 15 if has_crashed else 30}
        # Another partition of the log may be ahead, so later versions may come first.
        for batch in (third, second[::-1], first, third):
            again.apply(batch, offsets={("t", 0): 40}, epoch=2)
        assert newest_row_of(again) == newest_row_of(wanted)
        assert_same(answers(again), answers(wanted))
        if not has_crashed:
            break
    assert calls > 10


def test_a_crashed_batch_that_meets_newer_facts_first_leaves_no_trace(
    servers: RedisServers,
) -> None:
    wanted = twin(CORRECTABLE, first_rows(), corrections(), later_corrections())
    for calls in itertools.count():
        name = created(servers, CORRECTABLE)
        RedisIndex(servers, name, CORRECTABLE).apply(first_rows(), offsets={}, epoch=1)
        crashed = RedisIndex(FailingServers(servers, calls + 1), name, CORRECTABLE)
        with suppress(Crash):
            crashed.apply(corrections(), offsets={("t", 0): 1}, epoch=1)
        again = RedisIndex(servers, name, CORRECTABLE, newest_rows=0)
        has_crashed = not again.offsets()
        mixed = [*later_corrections(), *first_rows(), *corrections()]
        again.apply(mixed, offsets={}, epoch=2)
        assert_same(answers(again), wanted)
        if not has_crashed:
            break
    assert calls > 10


@pytest.mark.parametrize(
    ("spec", "first", "second", "third"),
    [
        (PLAIN, first_rows(), late_rows(), []),
        (CORRECTABLE, first_rows(), corrections(), later_corrections()),
        (WITH_HISTORY, first_rows(), without_the_newest(), later_corrections()),
        (KEYED_WITH_HISTORY, keyed_rows(), keyed_corrections(), more_keyed_corrections()),
    ],
    ids=["plain", "moved", "moved with a history", "keyed with a history"],
)
def test_a_zombie_that_continues_amid_a_batch_changes_no_answer(
    servers: RedisServers,
    spec: IndexSpec,
    first: list[Fact],
    second: list[Fact],
    third: list[Fact],
) -> None:
    """A writer is replaced between two of its calls, and makes the others afterwards."""
    wanted = twin_index(spec, first, second, third)
    for calls in itertools.count():
        name = created(servers, spec)
        RedisIndex(servers, name, spec).apply(first, offsets={}, epoch=1)
        successor = RedisIndex(servers, name, spec, newest_rows=0)
        interrupted = InterruptedServers(servers, calls + 1, successor, second)
        zombie = RedisIndex(interrupted, name, spec)
        try:
            zombie.apply(second, offsets={("t", 0): 99}, epoch=1)
        except IndexFenced:
            was_fenced = True
        else:
            was_fenced = False
        successor.apply(third, offsets={}, epoch=2)
        assert newest_row_of(successor) == newest_row_of(wanted)
        assert_same(answers(successor), answers(wanted))
        if not was_fenced:
            break
        assert successor.offsets() == {("t", 0): 30}
    assert calls > 10


@attrs.define(eq=False)
class InterruptedServers(FailingServers):
    """Servers on which another writer applies a batch between two calls of this one."""

    successor: RedisIndex
    facts: list[Fact]

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        replies: list[Reply] = []
        for call in calls:
            if self.left == 0:
                self.successor.raise_epoch(2)
                self.successor.apply(self.facts, offsets={("t", 0): 30}, epoch=2)
            self.left -= 1
            replies += self.servers.run([call])
        return replies


@pytest.mark.parametrize("spec", [PLAIN, CORRECTABLE], ids=["plain", "correctable"])
def test_a_write_that_comes_late_changes_nothing(servers: RedisServers, spec: IndexSpec) -> None:
    name = created(servers, spec)
    recorded = RecordingServers(servers, 0)
    index = RedisIndex(recorded, name, spec)
    batches = [[contribution(b"r%d" % n, 3 + n, n, 1.0, version=b"\x01")] for n in range(1, 5)]
    batches += [[contribution(b"r1", 4, 7, 2.0, version=b"\x02")]]
    for batch in batches:
        index.apply(batch, offsets={}, epoch=1)
    wanted = twin(spec, *batches)
    assert_same(answers(index), wanted)

    for calls in tuple(recorded.rounds):
        servers.run(calls)
        assert_same(answers(index), wanted)


@attrs.define(eq=False)
class RecordingServers(FailingServers):
    """Servers that note what was sent."""

    rounds: list[Sequence[ServerCall]] = attrs.field(factory=list)

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        self.rounds.append(calls)
        return self.servers.run(calls)


def test_lookups_of_many_keys_make_one_round_trip(servers: RedisServers) -> None:
    keyed = IndexSpec(log=KEYED)
    quiet = attrs.evolve(PLAIN, divided_above=DIVIDED_ABOVE)
    for spec, facts in (
        (quiet, [contribution(b"%d" % n, n % 60, user=f"u{n % 300}") for n in range(3000)]),
        (keyed, [row(f"u{n % 300}", n, b"v", 1, ()) for n in range(3000)]),
    ):
        index = RedisIndex(servers, created(servers, spec), spec, newest_rows=3)
        for expected, part in ((3, facts), (2, facts[:5])):  # the second only repeats
            began = servers.round_trips
            index.apply(part, offsets={("t", 0): 1}, epoch=1)
            assert servers.round_trips - began == expected
        for number in (1, 300):
            keys: list[tuple[Cell, ...]] = [(f"u{n}",) for n in range(number)]
            began = servers.round_trips
            with index.read() as reader:
                assert servers.round_trips - began == 1
                found = reader.lookup(keys, [5000] * number)
            assert servers.round_trips - began == 2
            assert None not in found


def test_a_batch_of_corrections_makes_five_round_trips(servers: RedisServers) -> None:
    quiet = attrs.evolve(CORRECTABLE, divided_above=DIVIDED_ABOVE)
    index = RedisIndex(servers, created(servers, quiet), quiet)
    for facts in (first_rows() * 4, corrections(), later_corrections()):
        began = servers.round_trips
        index.apply(facts, offsets={("t", 0): 1}, epoch=1)
        assert servers.round_trips - began == 5


def test_groups_whose_rows_fall_together_take_two_more_round_trips(servers: RedisServers) -> None:
    index = RedisIndex(servers, created(servers, PLAIN), PLAIN, newest_rows=3)
    rows = [contribution(b"%03d" % n, n % 24, user=f"u{n % 5}") for n in range(600)]
    for part, most in ((rows[:300], 4), (rows[300:], 5)):
        began = servers.round_trips
        index.apply(part, offsets={("t", 0): 1}, epoch=1)
        assert servers.round_trips - began <= most
    began = servers.round_trips
    with index.read() as reader:
        found = reader.lookup([(f"u{n}",) for n in range(5)], [22] * 5)
    assert servers.round_trips - began == 3
    assert None not in found


def test_a_server_that_has_forgotten_its_scripts_learns_them_again(node: RedisNode) -> None:
    servers = RedisServers(parse_address(node.url))
    index = RedisIndex(servers, created(servers, PLAIN), PLAIN)
    index.apply(first_rows(), offsets={}, epoch=1)

    node.connect().script_flush()
    index.apply(late_rows(), offsets={}, epoch=1)

    assert_same(answers(index), twin(PLAIN, first_rows(), late_rows()))


def test_an_absent_server_is_named_and_the_call_may_be_repeated(tmp_path: Path) -> None:
    require_redis()
    with redis_server(tmp_path) as node:
        servers = RedisServers(parse_address(node.url))
        index = RedisIndex(servers, created(servers, PLAIN), PLAIN)
    with pytest.raises(TransientError, match=rf"redis://127\.0\.0\.1:{node.port}.*repeat the call"):
        index.apply(first_rows(), offsets={}, epoch=1)
    with pytest.raises(TransientError):
        RedisServers(parse_address(node.url))
    with node.running(), pytest.raises(IndexMissingError):
        # The server has lost all that it had in memory.
        index.apply(first_rows(), offsets={}, epoch=1)


def test_an_index_of_which_a_server_lost_a_part_gives_no_answer(tmp_path: Path) -> None:
    require_redis()
    with redis_cluster(tmp_path) as nodes:
        servers = RedisServers(parse_address(nodes[0].url))
        name = created(servers, PLAIN)
        index = RedisIndex(servers, name, PLAIN)
        index.apply(first_rows(), offsets={}, epoch=1)
        holder = servers.names(b"{%b}" % name.encode())
        lost = next(node for node in nodes if not holder.endswith(f":{node.port}"))
        lost.connect().flushall()

        with pytest.raises(IndexPartLostError, match=f"127.0.0.1:{lost.port}"), index.read():
            pass


def test_a_replica_takes_the_place_of_a_lost_server(tmp_path: Path) -> None:
    require_redis()
    with redis_cluster(tmp_path, replicas=1) as nodes:
        servers = RedisServers(parse_address(nodes[0].url), timeout_s=2.0)
        index = RedisIndex(servers, created(servers, PLAIN), PLAIN)
        index.apply(first_rows(), offsets={("t", 0): 15}, epoch=1)
        primary, replica = _pair(nodes)
        primary.connect().execute_command("WAIT", 1, 10_000)
        replica.connect().execute_command("CLUSTER", "FAILOVER", "TAKEOVER")

        # Calls are redirected to the new primary server.
        index.apply(late_rows(), offsets={("t", 0): 30}, epoch=1)

        assert_same(answers(index), twin(PLAIN, first_rows(), late_rows()))
        assert index.offsets() == {("t", 0): 30}


def _pair(nodes: Sequence[RedisNode]) -> tuple[RedisNode, RedisNode]:
    """Return a primary server that has a replica, and the replica."""
    by_port = {node.port: node for node in nodes}
    for node in nodes:
        found = node.connect().info("replication")
        if found["role"] == "slave":
            return by_port[found["master_port"]], node
    raise AssertionError("the cluster has no replica")


def test_an_index_is_never_made_by_opening_it(servers: RedisServers) -> None:
    with pytest.raises(IndexMissingError, match="nx_absent"):
        RedisIndex(servers, "nx_absent", PLAIN)


def test_an_index_of_another_spec_is_refused(servers: RedisServers) -> None:
    name = created(servers, PLAIN)

    with pytest.raises(IndexMismatchError):
        RedisIndex(servers, name, CORRECTABLE)


def test_an_index_made_anew_has_nothing_of_the_former_one(servers: RedisServers) -> None:
    adapter = RedisIndexAdapter(connect=lambda: servers)
    name = created(servers, PLAIN)
    former = RedisIndex(servers, name, PLAIN)
    former.apply(first_rows(), offsets={}, epoch=1)
    adapter.destroy(name, external_id=None, timeout_s=TIMEOUT_S)
    assert [key for keys in servers.scan(b"*%b*" % name.encode()) for key in keys] == []
    adapter.create(name, PLAIN, asset_id=2, timeout_s=TIMEOUT_S)

    with pytest.raises(IndexMissingError, match="replaced"):
        former.apply(late_rows(), offsets={("t", 0): 1}, epoch=1)

    assert former.is_replaced()
    index = RedisIndex(servers, name, PLAIN)
    assert index.offsets() == {}
    assert_same(answers(index), twin(PLAIN))


def test_an_interrupted_creation_is_completed_by_the_next(servers: RedisServers) -> None:
    name = "nx_interrupted"
    for failing in [FailingServers(servers, calls) for calls in (0, 1, 2, 100)]:
        adapter = RedisIndexAdapter(connect=partial(attrs.evolve, failing))
        with pytest.raises(Crash):
            adapter.create(name, PLAIN, asset_id=3, timeout_s=TIMEOUT_S)
        with pytest.raises(IndexMissingError):
            RedisIndex(servers, name, PLAIN)
    RedisIndexAdapter(connect=lambda: servers).create(name, PLAIN, asset_id=3, timeout_s=TIMEOUT_S)

    assert RedisIndex(servers, name, PLAIN).offsets() == {}


def test_facts_of_any_version_order_agree_with_the_twin(servers: RedisServers) -> None:
    name = created(servers, PLAIN)
    index = RedisIndex(servers, name, PLAIN, newest_rows=0)
    facts = [attrs.evolve(one, version=Version(b"\x05")) for one in late_rows()]
    for batch in (facts, late_rows(), first_rows()):
        index.apply(batch, offsets={}, epoch=1)

    assert_same(answers(index), twin(PLAIN, facts, first_rows()))


@given(
    st.lists(st.lists(_contributions, max_size=12), max_size=5),
    st.sampled_from([(), (5,), (4, 12, 24)]),
)
@settings(max_examples=40)
def test_an_index_is_the_same_by_columns_and_by_facts(
    servers: RedisServers, batches: list[list[Fact]], ladder_us: tuple[int, ...]
) -> None:
    spec = contributions_spec(ladder_us)
    reader, codec = column_reader(CONTRIBUTIONS), fact_codec(CONTRIBUTIONS)
    assert reader is not None
    index = RedisIndex(servers, created(servers, spec), spec, newest_rows=0)
    other = InMemoryIndex(spec)

    for number, batch in enumerate(batches):
        offsets = {("t", 0): number + 1}
        datums = [codec.encode(fact) for fact in batch]
        by_column = index.apply_columns(reader.read(datums), offsets=offsets, epoch=1)
        assert by_column == other.apply(batch, offsets=offsets, epoch=1)

    assert index.offsets() == other.offsets()
    assert_same(answers(index), answers(other))


def test_an_index_that_is_corrected_takes_no_columns(servers: RedisServers) -> None:
    index = RedisIndex(servers, created(servers, CORRECTABLE), CORRECTABLE)
    reader = column_reader(CONTRIBUTIONS)
    assert reader is not None

    assert not index.takes_columns
    with pytest.raises(WrongShapeError):
        index.apply_columns(reader.read([]), offsets={}, epoch=1)


def test_a_removal_that_runs_out_of_time_is_continued(servers: RedisServers) -> None:
    adapter = RedisIndexAdapter(connect=lambda: servers)
    name = created(servers, PLAIN)
    with pytest.raises(TransientError, match="repeat the call"):
        adapter.destroy(name, external_id=None, timeout_s=0.0)
    assert adapter.list(name, timeout_s=TIMEOUT_S) != ()

    adapter.destroy(name, external_id=None, timeout_s=TIMEOUT_S)

    assert adapter.list(name, timeout_s=TIMEOUT_S) == ()
    assert [key for keys in servers.scan(b"*{%b*" % name.encode()) for key in keys] == []


def test_a_refusal_of_a_server_is_passed_on(node: RedisNode) -> None:
    servers = RedisServers(parse_address(node.url))
    for _ in range(3):
        with pytest.raises(PermanentError, match="wrong number of arguments"):
            servers.run([ServerCall("HGET", b"{a}"), ServerCall("GET", b"{a}")])
    assert servers.run([ServerCall("GET", b"{a}")]) == [None]
