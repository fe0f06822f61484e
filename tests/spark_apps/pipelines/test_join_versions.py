"""Versions of joined rows while writers and other runs change and read the joined indexes.

However batches of a right index and readings of it interleave: the newest version of each row is
the right one in the end, and no two contents share a version.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from numpy.random import default_rng
from typing_extensions import override

from narthex._formats import key_bytes, keyed_row_id
from narthex._formats.avro import fact_codec
from narthex._ir import (
    AssetKind,
    Cell,
    Column,
    DatasetRef,
    Datetime,
    Fact,
    Field,
    IndexSpec,
    Int,
    Join,
    JoinHow,
    LogShape,
    LogSpec,
    Optional,
    PipelineInput,
    ResolvedNeed,
    Role,
    RowId,
    Schema,
    Str,
    Version,
)
from narthex_spark_apps.pipelines.python_pipeline import PythonPipeline
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_stores import Adapter, IndexHandle, IndexSnapshot, LmdbIndex, LmdbIndexStore
from narthex_stores.indexes import RedisIndex, RedisIndexAdapter, RedisServers, parse_address
from narthex_stores.indexes.redis.servers import Reply, ServerCall
from tests.redis_servers import redis_cluster, require_redis
from tests.spark_apps import spark_jobs

TIMEOUT_S = 10.0
AT = 100
STEPS = 40
"""How many batches and joins an interleaving has at most, corrections not counted."""
KEYS = ("ann", "bob", "cy", "dan")
_numbers = itertools.count(1)

CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
CLICK_LOG = spark_jobs.log_of(CLICKS)


def right_schema(value: str) -> Schema:
    return Schema(
        (
            Field(name="who", type=Str(), role=Role.KEY),
            Field(name=value, type=Str()),
            Field(name="since", type=Datetime(), role=Role.TIMESTAMP),
        )
    )


RIGHTS = {"People": "city", "Cards": "card"}
RIGHT_LOGS = {
    name: LogSpec(
        shape=LogShape.KEYED,
        keys=(Column("who", Str()),),
        values=(Column(value, Str()),),
        time_field="since",
    )
    for name, value in RIGHTS.items()
}


def click(number: int) -> Fact:
    """Make a left row; its user is one of `KEYS`."""
    return Fact(
        row_id=RowId(b"click %d" % number),
        version=Version(b"\x00"),
        event_time=AT,
        key=(),
        values=(KEYS[number % len(KEYS)], number),
    )


def right_row(name: str, who: str, value: str, seen: int) -> Fact:
    """Make the state of a right row that the log has at offset `seen`."""
    return Fact(
        row_id=keyed_row_id(key_bytes(RIGHT_LOGS[name].keys, (who,)), 1),
        version=Version(seen.to_bytes(4, "big")),
        event_time=1,
        key=(who,),
        values=(value,),
    )


@attrs.frozen(eq=False)
class FixedIndexes:
    """An index store of indexes that are open already."""

    handles: Mapping[str, IndexHandle]
    is_shared: bool = False

    def open(self, name: str, spec: IndexSpec, *, readonly: bool = False) -> IndexHandle:
        del spec, readonly
        return self.handles[name]

    def adapter(self) -> Adapter:
        raise NotImplementedError


def pipeline_of(handles: Mapping[str, IndexHandle]) -> PythonPipeline:
    """Return a pipeline that joins clicks with these datasets."""
    operators: DatasetRef | Join = DatasetRef("Clicks")
    fields = list(CLICKS.fields)
    for name in handles:
        value = RIGHTS[name]
        pairs = (("who", "who"),)
        operators = Join(operators, DatasetRef(name), JoinHow.LEFT, pairs, None, 0, (value,))
        fields.append(Field(name=value, type=Optional(Str())))
    clicks = PipelineInput(dataset="Clicks", log=CLICK_LOG, schema=CLICKS, correctable=False)
    rights = [
        PipelineInput(
            dataset=name,
            log=RIGHT_LOGS[name],
            schema=right_schema(RIGHTS[name]),
            correctable=False,
        )
        for name in handles
    ]
    job: PipelineJob = spark_jobs.pipeline_job(
        operators,
        inputs=(clicks, *rights),
        schema=Schema(tuple(fields)),
        needs=(
            spark_jobs.topic_need("input:Clicks", "clicks"),
            spark_jobs.topic_need("output", "joined"),
            spark_jobs.checkpoint_need(Path("checkpoint")),
            *(_index_need(name) for name in handles),
        ),
    )
    return PythonPipeline(job, FixedIndexes(handles))


def _index_need(name: str) -> ResolvedNeed:
    return ResolvedNeed(
        role=f"right:{name}",
        kind=AssetKind.INDEX,
        asset_id=0,
        physical_name=name,
        spec=IndexSpec(log=RIGHT_LOGS[name]),
    )


def joined(pipeline: PythonPipeline, clicks: Sequence[Fact]) -> list[Fact]:
    """Run a pipeline over clicks; return the facts that it appends."""
    values = [fact_codec(CLICK_LOG).encode(fact) for fact in clicks]
    codec = fact_codec(pipeline._job.spec.log)  # noqa: SLF001
    return codec.decode_many([value for _, _, value in pipeline.records(values)])


def assert_no_version_has_two_contents(facts: Sequence[Fact]) -> None:
    contents: dict[tuple[bytes, bytes], Fact] = {}
    for fact in facts:
        assert contents.setdefault((fact.row_id, fact.version), fact) == fact


def newest_values(facts: Sequence[Fact]) -> dict[bytes, tuple[Cell, ...]]:
    newest: dict[bytes, Fact] = {}
    for fact in facts:
        known = newest.get(fact.row_id)
        if known is None or known.version < fact.version:
            newest[fact.row_id] = fact
    return {row_id: fact.values for row_id, fact in newest.items()}


@attrs.define(eq=False)
class InterruptedServers:
    """Servers whose client is interrupted between its calls, and then goes on."""

    servers: RedisServers
    between: Callable[[], None]

    def run(self, calls: Sequence[ServerCall]) -> list[Reply]:
        replies: list[Reply] = []
        for call in calls:
            replies += self.servers.run([call])
            self.between()
        return replies

    def one_on_each(self, keys: Sequence[bytes]) -> list[bytes]:
        return self.servers.one_on_each(keys)

    def names(self, key: bytes) -> str:
        return self.servers.names(key)

    def scan(self, pattern: bytes) -> Iterator[list[bytes]]:
        return self.servers.scan(pattern)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    require_redis()
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield RedisServers(parse_address(nodes[0].url))


def created(servers: RedisServers, name: str) -> str:
    physical = f"nx_join_{next(_numbers)}"
    spec = IndexSpec(log=RIGHT_LOGS[name])
    adapter = RedisIndexAdapter(connect=lambda: servers)
    adapter.create(physical, spec, asset_id=1, timeout_s=TIMEOUT_S)
    return physical


def offsets_of(name: str, offset: int) -> dict[tuple[str, int], int]:
    return {(name, 0): offset}


@pytest.mark.redis
def test_a_run_amid_a_batch_shares_no_version_with_one_before_it(servers: RedisServers) -> None:
    name, spec = created(servers, "People"), IndexSpec(log=RIGHT_LOGS["People"])
    first = [right_row("People", who, "Oslo", 0) for who in KEYS]
    second = [right_row("People", who, "Rome", 1) for who in KEYS]
    RedisIndex(servers, name, spec).apply(first, offsets=offsets_of("People", 1), epoch=1)
    pipeline = pipeline_of({"People": RedisIndex(servers, name, spec)})
    clicks = [click(number) for number in range(4)]
    found = joined(pipeline, clicks)
    writer = RedisIndex(
        InterruptedServers(servers, lambda: found.extend(joined(pipeline, clicks))), name, spec
    )

    writer.apply(second, offsets=offsets_of("People", 2), epoch=1)
    amid = list(found)
    found += joined(pipeline, clicks)

    contents = {(fact.row_id, fact.values[2]) for fact in amid[:-4]}
    assert len(contents) == 8
    assert_no_version_has_two_contents(found)
    assert {values[2] for values in newest_values(found).values()} == {"Rome"}
    pipeline.close()


class Interleaving:
    """Two processes join while writers of two right indexes apply batches, call by call.

    Between two calls of one of them, another one may run. As in `join_stage`, the first process
    joins again once an index contains an announced change.
    """

    def __init__(self, servers: RedisServers, seed: int) -> None:
        self._rng = default_rng(seed)
        self._left = 0
        self._busy: list[str] = []
        self.clicks = [click(number) for number in range(4)]
        self.facts: list[Fact] = []
        self.wanted: dict[tuple[str, str], str] = {}
        self._offsets = dict.fromkeys(RIGHTS, 0)
        self._announced: list[list[Fact]] = []
        names = {right: created(servers, right) for right in RIGHTS}
        between = InterruptedServers(servers, self._between)

        def opened() -> dict[str, RedisIndex]:
            return {
                right: RedisIndex(between, name, IndexSpec(log=RIGHT_LOGS[right]))
                for right, name in names.items()
            }

        self._writers = opened()
        self.processes = {name: pipeline_of(opened()) for name in ("first", "second")}
        self._left = STEPS

    def _between(self) -> None:
        if self._left > 0 and len(self._busy) < 3 and self._rng.random() < 0.1:
            self.step()

    def step(self) -> None:
        """Let a writer apply a batch, or a process join, unless it is busy."""
        self._left -= 1
        actor = str(self._rng.choice([*self._writers, *self.processes]))
        if actor in self._busy:
            return
        self._busy.append(actor)
        if actor in self._writers:
            self._write(actor)
        else:
            self.facts += joined(self.processes[actor], self.clicks)
        self._busy.remove(actor)

    def _write(self, right: str) -> None:
        self._offsets[right] += 1
        offset = self._offsets[right]
        changed = [str(who) for who in self._rng.choice(KEYS, 2, replace=False)]
        self.wanted |= {(right, who): f"{right} {offset}" for who in changed}
        facts = [right_row(right, who, f"{right} {offset}", offset) for who in changed]
        self._writers[right].apply(facts, offsets=offsets_of(right, offset), epoch=1)
        self._announced.append([one for one in self.clicks if one.values[0] in changed])

    @property
    def is_going_on(self) -> bool:
        return self._left > 0

    def correct(self) -> None:
        """Let the first process join again what was announced."""
        while self._announced:
            self._busy.append("first")
            self.facts += joined(self.processes["first"], self._announced.pop(0))
            self._busy.remove("first")


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.parametrize("seed", range(30))
def test_every_interleaving_ends_with_the_newest_right_rows(
    servers: RedisServers, seed: int
) -> None:
    history = Interleaving(servers, seed)
    history.facts += joined(history.processes["first"], history.clicks)

    while history.is_going_on:
        history.step()
        history.correct()

    assert_no_version_has_two_contents(history.facts)
    ends = newest_values(history.facts)
    for one in history.clicks:
        who, number = one.values
        rights = [history.wanted.get((right, str(who))) for right in RIGHTS]
        assert ends[one.row_id] == (who, number, *rights)
    for process in history.processes.values():
        process.close()


class PausingIndex(LmdbIndex):
    """An index whose next reader does something else before it opens a snapshot."""

    pause: Callable[[], None] | None = None

    @override
    @contextmanager
    def read(self) -> Iterator[IndexSnapshot]:
        pause, self.pause = self.pause, None
        if pause is not None:
            pause()
        with super().read() as snapshot:
            yield snapshot


def test_a_process_that_stops_between_two_indexes_does_not_win(tmp_path: Path) -> None:
    """Its row of the first index is old, though its offsets of the second one are new."""
    people, cards = (_in_lmdb(tmp_path, name) for name in RIGHTS)
    people.apply([right_row("People", "ann", "Oslo", 0)], offsets=offsets_of("People", 1), epoch=1)
    live = pipeline_of({"People": people, "Cards": cards})
    found: list[Fact] = []

    def meanwhile() -> None:
        rome = [right_row("People", "ann", "Rome", 1)]
        people.apply(rome, offsets=offsets_of("People", 2), epoch=1)
        found.extend(joined(live, [click(0)]))
        cards.apply([], offsets=offsets_of("Cards", 9), epoch=1)

    with ThreadPoolExecutor(1) as other_process:
        cards.pause = lambda: other_process.submit(meanwhile).result()
        stopped = pipeline_of({"People": people, "Cards": cards})
        found += joined(stopped, [click(0)])

    assert {fact.values[2] for fact in found} == {"Oslo", "Rome"}
    assert newest_values(found) == {click(0).row_id: ("ann", 0, "Rome", None)}
    for pipeline in (live, stopped):
        pipeline.close()


def _in_lmdb(root: Path, name: str) -> PausingIndex:
    spec = IndexSpec(log=RIGHT_LOGS[name])
    LmdbIndexStore(root).adapter().create(name.lower(), spec, asset_id=1, timeout_s=TIMEOUT_S)
    return PausingIndex(root / name.lower(), spec)
