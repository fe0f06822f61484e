"""Compare logged queries with the logs: each is repeated on the facts below its offsets.

The queried indexes are rebuilt from the logs; whether an index matches the definitions is compared
elsewhere. Offsets of answers from a shared index store are lower bounds. So an answer that differs
there, and has keys that received rows beyond its offsets, is neither right nor wrong.
"""

import hashlib
import heapq
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import attrs

from narthex._formats import parse_cell
from narthex._ir import Cell, DatasetPlan, IndexSpec
from narthex._query import Columns, FoundRow, LoggedQuery, ReadPlan, answers_topic, execute
from narthex._query import plan as plan_read
from narthex._runtime.workers import CodeCalls
from narthex_proving.deployed import Deployed
from narthex_proving.findings import ProofDifference, ReadOffsets, RepeatedAnswer, named
from narthex_proving.logs import Log, PartitionEnds, read_up_to
from narthex_reference import same_cells
from narthex_stores import IndexHandle, LmdbIndexStore, LogReader, LookupResult, Record

_BATCH = 20_000


@attrs.frozen(kw_only=True)
class Drawn:
    """A logged query that was drawn for a proof.

    Attributes:
        partition: The partition of its record in the log of logged queries.
        offset: The offset of its record there.
    """

    query: LoggedQuery
    partition: int
    offset: int


def logged_queries(
    platform: Deployed, *, most: int, seed: int, since_ms: int | None = None
) -> list[Drawn]:
    """Draw logged queries of the platform's commit; all of them if there are not more than `most`.

    The same seed draws the same queries of the same log.

    Args:
        platform: The deployment.
        most: The greatest number of queries.
        seed: Decides which are drawn.
        since_ms: Only those that were logged at or after this instant; None for all that are
            retained.

    Raises:
        StoreError: The cluster does not answer.
        GarbledAnswerError: A record of their log is not a logged query.
    """
    topic = answers_topic(platform.install_id)
    # The greatest rank is first, as its negation, and leaves first.
    drawn: list[tuple[int, int, int, LoggedQuery]] = []
    with LogReader(platform.kafka) as reader:
        ends = reader.end_offsets([topic])
        reader.assign(reader.first_offsets([topic]))
        for records in read_up_to(reader, ends, of="the log of logged queries"):
            for record in records:
                rank = _rank(record, seed)
                is_full = len(drawn) >= most
                if _is_before(record, since_ms) or (is_full and (not most or rank >= -drawn[0][0])):
                    continue
                query = LoggedQuery.decoded(record.value or b"")
                if query.commit_id != str(platform.commit_id):
                    continue
                entry = (-rank, record.partition, record.offset, query)
                (heapq.heappushpop if is_full else heapq.heappush)(drawn, entry)
    return [
        Drawn(query=query, partition=partition, offset=offset)
        for _, partition, offset, query in sorted(drawn, key=lambda one: one[1:3])
    ]


def _rank(record: Record, seed: int) -> int:
    place = f"{seed} {record.partition} {record.offset}".encode()
    return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "big")


def _is_before(record: Record, since_ms: int | None) -> bool:
    return since_ms is not None and record.timestamp_ms < since_ms


@attrs.define(kw_only=True)
class ReplayedQueries:
    """Repeats logged queries on indexes that grow with the queries' offsets.

    Attributes:
        changed: How many would differ now, because rows arrived later.
        undecided: How many differ, and may have read rows beyond their offsets.
    """

    platform: Deployed
    calls: CodeCalls
    log: Callable[[str], Log]
    changed: int = 0
    undecided: int = 0
    _keys: dict[str, set[bytes]] = attrs.field(factory=dict)
    _indexes: dict[str, "_Index"] = attrs.field(factory=dict)
    _plans: dict[tuple[tuple[str, ...], tuple[str, ...]], ReadPlan] = attrs.field(factory=dict)
    _closing: ExitStack = attrs.field(factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def differences(self, drawn: Sequence[Drawn]) -> Iterator[ProofDifference]:
        """Compare answers; then count, in `changed`, those changed by later rows."""
        answers = sorted(drawn, key=lambda one: _reach(one.query))
        for one in answers:
            found = list(self._difference(one))
            if found and self._may_have_read_later(one.query):
                self.undecided += 1
            else:
                yield from found
        for answer in (one.query for one in answers):
            self.changed += self._outputs(answer, {}) != self._said(answer)

    def _may_have_read_later(self, answer: LoggedQuery) -> bool:
        """Whether keys of the query that was just repeated have facts beyond its offsets."""
        if not self.platform.indexes.is_shared:
            return False
        return any(
            not keys.isdisjoint(self.log(name).changed_beyond(self._ends(name, answer.offsets)))
            for name, keys in self._keys.items()
        )

    def _ends(self, dataset: str, offsets: ReadOffsets) -> PartitionEnds:
        read = offsets.get(dataset)
        if read is None:
            return self.log(dataset).ends
        topic = self.platform.topic(dataset).physical_name
        return {int(partition): offset for partition, offset in read.get(topic, {}).items()}

    def _difference(self, drawn: Drawn) -> Iterator[ProofDifference]:
        answer = drawn.query
        said, meant = self._said(answer), self._outputs(answer, answer.offsets)
        plan = self._plan(answer)
        inputs = _cells(answer.inputs, plan)
        for name in plan.outputs:
            for row, (found, right) in enumerate(zip(said[name], meant[name], strict=True)):
                if same_cells((found,), (right,)):
                    continue
                of = {name: plan.types[name]}
                asked = {one: cells[row] for one, cells in inputs.items()}
                yield ProofDifference(
                    dataset=name.partition(".")[0],
                    store="answers",
                    what=f"a logged query, `{name}`",
                    key=named(tuple(asked), tuple(asked.values()), plan.types),
                    instant=answer.as_of,
                    found=named((name,), (found,), of),
                    meant=named((name,), (right,), of),
                    answer=RepeatedAnswer(
                        feature=name,
                        commit_id=answer.commit_id,
                        offsets=answer.offsets,
                        partition=drawn.partition,
                        offset=drawn.offset,
                    ),
                )

    def _plan(self, answer: LoggedQuery) -> ReadPlan:
        asked = tuple(answer.inputs), tuple(answer.outputs)
        if asked not in self._plans:
            self._plans[asked] = plan_read(
                self.platform.definitions, self.platform.plans, inputs=asked[0], outputs=asked[1]
            )
        return self._plans[asked]

    def _said(self, answer: LoggedQuery) -> dict[str, list[Cell]]:
        return _cells(answer.outputs, self._plan(answer))

    def _outputs(self, answer: LoggedQuery, offsets: ReadOffsets) -> Mapping[str, Sequence[Cell]]:
        """Repeat the query on the facts below these offsets; without them, on the whole logs."""
        whole = self._plan(answer)
        columns = _cells(answer.inputs, whole)
        rows = len(next(iter(columns.values()), []))
        self._keys = {}

        def lookup(
            plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
        ) -> Sequence[FoundRow | None]:
            key_of = self.log(plan.name).key_of
            self._keys.setdefault(plan.name, set()).update(map(key_of, keys))
            ends = self._ends(plan.name, offsets)
            return self._index(plan.name).up_to(self.log(plan.name), ends).lookup(keys, as_of)

        return execute(
            whole, columns, lookup=lookup, workers=self.calls, as_of=[answer.as_of] * rows
        )

    def _index(self, dataset: str) -> "_Index":
        if dataset not in self._indexes:
            asset = self.platform.bindings[f"dataset/{dataset}/index"]
            if not isinstance(asset.spec, IndexSpec):
                raise TypeError(f"asset {asset.asset_id} is not an index")
            self._indexes[dataset] = _Index(spec=asset.spec, closing=self._closing)
        return self._indexes[dataset]


@attrs.define(kw_only=True)
class _Index:
    """An index built from a log; it is rebuilt when fewer facts are requested than it has."""

    spec: IndexSpec
    closing: ExitStack
    _index: IndexHandle | None = None
    _contains: dict[int, int] = attrs.field(factory=dict)

    def up_to(self, log: Log, ends: PartitionEnds) -> Self:
        """Return the index with exactly the facts below these offsets."""
        if self._index is None or any(ends.get(p, 0) < o for p, o in self._contains.items()):
            home = self.closing.enter_context(tempfile.TemporaryDirectory())
            self._index = LmdbIndexStore(Path(home).parent).open(Path(home).name, self.spec)
            self.closing.callback(self._index.close)
            self._contains = {}
        taken = self._contains
        facts = [r.fact for r in log.below(ends) if r.offset >= taken.get(r.partition, 0)]
        for at in range(0, len(facts), _BATCH):
            self._index.apply(facts[at : at + _BATCH], offsets={}, epoch=1)
        self._contains = dict(ends)
        return self

    def lookup(
        self, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> list[LookupResult | None]:
        """Return the rows of keys as of instants."""
        if self._index is None:
            raise TypeError("it contains nothing yet")
        with self._index.read() as snapshot:
            return snapshot.lookup(keys, as_of)


def _reach(answer: LoggedQuery) -> int:
    """Return how far an answer had read; indexes only grow for queries in this order."""
    return sum(
        offset
        for topics in answer.offsets.values()
        for partitions in topics.values()
        for offset in partitions.values()
    )


def _cells(columns: Columns, plan: ReadPlan) -> dict[str, list[Cell]]:
    return {
        name: [parse_cell(one, plan.types[name]) for one in rendered]
        for name, rendered in columns.items()
    }
