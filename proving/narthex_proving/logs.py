"""The current dataset logs: every fact with its partition and offset, below given offsets."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

from narthex._formats import key_bytes
from narthex._formats.avro import fact_codec
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, LogShape, LogSpec, RowId
from narthex_stores import Broker, LogReader, LogRow, Record, TransientError

PartitionEnds: TypeAlias = Mapping[int, int]
"""Partition to the offset after the last record."""

_SILENT_S = 30.0
_POLL_S = 1.0
_BATCH = 20_000


class LogGoneError(RuntimeError):
    """The beginning of a log was deleted, so nothing can be computed from it."""


@attrs.frozen(kw_only=True, eq=False)
class Log:
    """The records of one dataset's log, from its beginning.

    Attributes:
        ends: The offsets up to which it was read.
    """

    dataset: str
    spec: LogSpec
    rows: tuple[LogRow, ...]
    ends: PartitionEnds

    def below(self, ends: PartitionEnds) -> tuple[LogRow, ...]:
        """Return the rows below these offsets; a partition without one has none."""
        return tuple(row for row in self.rows if row.offset < ends.get(row.partition, 0))

    def beyond(self, ends: PartitionEnds) -> tuple[Fact, ...]:
        """Return the facts at and after these offsets."""
        return tuple(row.fact for row in self.rows if row.offset >= ends.get(row.partition, 0))

    def changed_beyond(self, ends: PartitionEnds) -> frozenset[bytes]:
        """Return the keys, by `key_of`, whose rows the facts from these offsets on may change."""
        row_ids = {fact.row_id for fact in self.beyond(ends)}
        states = (row for row_id in row_ids for row in self.states(row_id))
        return frozenset(self.key_of(row.fact.key) for row in states)

    def key_of(self, key: tuple[Cell, ...]) -> bytes:
        """Return the canonical bytes of a key; some cells, such as structs, have no hash."""
        return key_bytes(self.spec.keys, key)

    def states(self, row_id: RowId) -> tuple[LogRow, ...]:
        """Return the states of a row, oldest first in each partition."""
        return tuple(self._states.get(row_id, ()))

    @cached_property
    def _states(self) -> dict[RowId, list[LogRow]]:
        states: dict[RowId, list[LogRow]] = {}
        for row in self.rows:
            states.setdefault(row.fact.row_id, []).append(row)
        return states


def read_log(
    broker: Broker,
    topic: str,
    *,
    dataset: str,
    spec: LogSpec,
    ends: PartitionEnds,
    tell: Callable[[str], None],
) -> Log:
    """Read a log from its beginning up to these offsets.

    Raises:
        LogGoneError: Its beginning was deleted.
        StoreError: The cluster does not answer.
    """
    codec = fact_codec(spec)
    wanted = {partition: end for partition, end in ends.items() if end > 0}
    rows: list[LogRow] = []
    with LogReader(broker) as reader:
        for (_, partition), first in reader.first_offsets([topic]).items():
            if first > 0:
                raise LogGoneError(
                    f"the log of `{dataset}` begins at offset {first} of partition {partition}: "
                    "earlier records were deleted"
                )
        reader.assign({(topic, partition): 0 for partition in wanted})
        places = {(topic, partition): end for partition, end in wanted.items()}
        for found in read_up_to(reader, places, of=f"the log of `{dataset}`"):
            rows += _decoded(codec.decode_many([one.value or b"" for one in found]), found)
            tell(f"read {len(rows)} of {sum(wanted.values())} records of `{dataset}`")
    return Log(dataset=dataset, spec=spec, rows=tuple(rows), ends=ends)


def read_up_to(
    reader: LogReader, ends: Mapping[tuple[str, int], int], *, of: str
) -> Iterator[list[Record]]:
    """Read the records from a reader's position up to these offsets, in batches.

    Args:
        reader: The reader, assigned to its start offsets.
        ends: Topic and partition to the offset after the last record.
        of: The name of the read data, for the error message.

    Raises:
        StoreError: The cluster does not answer, or gave nothing for 30 s.
    """
    silent_s = 0.0
    while any(reader.positions[place] < end for place, end in ends.items()):
        records = reader.poll(max_records=_BATCH, timeout_s=_POLL_S)
        silent_s = 0.0 if records else silent_s + _POLL_S
        if silent_s >= _SILENT_S:
            raise TransientError(f"{of} gave nothing for {_SILENT_S:g} s")
        if records:
            yield [one for one in records if one.offset < ends.get((one.topic, one.partition), 0)]


def _decoded(facts: Iterable[Fact], records: Iterable[Record]) -> list[LogRow]:
    return [
        LogRow(record.partition, record.offset, fact)
        for record, fact in zip(records, facts, strict=True)
    ]


def standing(spec: LogSpec, facts: Iterable[Fact]) -> dict[RowId, Fact]:
    """Return the current facts: the state with the highest version per row, without tombstones.

    For a keyed log the absences that end a row are included.
    """
    newest: dict[RowId, Fact] = {}
    for fact in facts:
        known = newest.get(fact.row_id)
        if known is None or known.version < fact.version:
            newest[fact.row_id] = fact
    if spec.shape is not LogShape.KEYED:
        return {row_id: fact for row_id, fact in newest.items() if fact.alive}
    return _without_idle_absences(spec, newest)


def _without_idle_absences(spec: LogSpec, newest: Mapping[RowId, Fact]) -> dict[RowId, Fact]:
    there: dict[bytes, bool] = {}
    kept: dict[RowId, Fact] = {}
    for fact in sorted(newest.values(), key=lambda one: one.event_time):
        if fact.event_time == TOMBSTONE_TIME:
            continue
        key = key_bytes(spec.keys, fact.key)
        if fact.alive or there.get(key, False):
            kept[fact.row_id] = fact
        there[key] = fact.alive
    return kept
