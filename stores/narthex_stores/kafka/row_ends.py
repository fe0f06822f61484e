"""Append facts to a log that end rows, so that a sink deletes them from its target.

A log without erased rows takes the place of one that has them. The rows that it lacks end in the
old log: each gets a fact of its own row, later than all others and not alive. The sink of the old
log then deletes it as any row that ends. To do so again is harmless: a row that has ended is not
current.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Final

import attrs

from narthex._formats import key_encoder
from narthex._formats.avro import fact_codec
from narthex._ir import TOMBSTONE_TIME, Fact, LogShape, SinkJobSpec, Version
from narthex_stores.kafka.brokers import Broker
from narthex_stores.kafka.copying import MOST_AT_ONCE, WRITE_S, read_log
from narthex_stores.kafka.logs import Delivered, LogProducer, LogReader, Record

_END: Final = b"\xffended"
"""Ends the version of a fact that ends a row: as bytes, it comes after all versions of its row."""


@attrs.frozen(kw_only=True)
class RowEnds:
    """The facts of a log that end rows.

    Attributes:
        rows: How many rows have such a fact.
        until: For each partition with records, the offset after its last one.
    """

    rows: int
    until: Mapping[int, int]


def end_rows(broker: Broker | str, spec: SinkJobSpec, *, log: str, new_log: str) -> RowEnds:
    """Let those rows of a log end that another log of the same dataset does not have.

    Nothing else may write to the log.

    Args:
        broker: The cluster.
        spec: The sink that reads the log.
        log: The log.
        new_log: The log that takes its place.

    Raises:
        StoreError: The cluster did not answer in time.
    """
    with LogReader(broker) as reader, LogProducer(broker) as producer:
        kept = CurrentRows(spec)
        for record in _records(reader, new_log):
            kept.take(record)
        found = CurrentRows(spec)
        until: dict[int, int] = {}
        for record in _records(reader, log):
            found.take(record)
            until[record.partition] = record.offset + 1
        codec, ends = fact_codec(spec.log), missing_ends(found, kept)
        for start in range(0, len(ends), MOST_AT_ONCE):
            pending = [
                producer.append(
                    log,
                    value=codec.encode(fact),
                    key=record.key,
                    headers=dict(record.headers),
                    partition=record.partition,
                )
                for record, fact in ends[start : start + MOST_AT_ONCE]
            ]
            _settle(pending, until)
    return RowEnds(rows=len(found.ended) + len(ends), until=until)


def missing_ends(found: "CurrentRows", kept: "CurrentRows") -> list[tuple[Record, Fact]]:
    """Return the facts that end the rows of a log that another one lacks.

    Each comes with the record of the row's newest fact: it belongs into the same partition.
    """
    return [
        (record, attrs.evolve(fact, version=Version(fact.version + _END), alive=False))
        for identity, (record, fact) in found.rows.items()
        if identity not in kept.rows
    ]


@attrs.define
class CurrentRows:
    """The rows that a sink's target has after the facts of a log, as the sink derives them.

    Attributes:
        rows: By identity, the fact of each row, with its record.
        ended: The identities of the rows that facts of `end_rows` have ended.
    """

    spec: SinkJobSpec
    rows: dict[bytes, tuple[Record, Fact]] = attrs.field(factory=dict)
    ended: set[bytes] = attrs.field(factory=set)
    _versions: dict[bytes, bytes] = attrs.field(factory=dict)
    _newest: dict[bytes, tuple[Record, Fact]] = attrs.field(factory=dict)
    _members: dict[bytes, dict[bytes, tuple[Record, Fact]]] = attrs.field(factory=dict)

    def take(self, record: Record) -> None:
        """Take in the next record of the log."""
        (fact,) = fact_codec(self.spec.log).decode_many([record.value or b""])
        if not self.spec.takes(fact) or self._versions.get(fact.row_id, b"") >= fact.version:
            return
        self._versions[fact.row_id] = fact.version
        is_keyed = self.spec.log.shape is LogShape.KEYED
        identity = key_encoder(self.spec.log.keys)(fact.key) if is_keyed else bytes(fact.row_id)
        newest = self._after(identity, (record, fact)) if is_keyed else (record, fact)
        self._newest.pop(identity, None)
        self.rows.pop(identity, None)
        if newest is not None:
            self._newest[identity] = newest
            if newest[1].alive:
                self.rows[identity] = newest
        if not fact.alive and fact.version.endswith(_END):
            self.ended.add(identity)

    def _after(self, identity: bytes, found: tuple[Record, Fact]) -> tuple[Record, Fact] | None:
        before, fact = self._newest.get(identity), found[1]
        members = self._members.setdefault(identity, {}) if self.spec.voidable else {}
        if fact.event_time == TOMBSTONE_TIME:
            retracted = members.pop(fact.row_id, None)
            if retracted is None or before is None or before[1].row_id != fact.row_id:
                return before
            return max(members.values(), key=_order, default=None)
        members[fact.row_id] = found
        return found if before is None or _order(found) > _order(before) else before


def _order(found: tuple[Record, Fact]) -> tuple[int, bytes]:
    return found[1].event_time, found[1].version


def _records(reader: LogReader, log: str) -> Iterator[Record]:
    firsts = reader.first_offsets([log])
    for (topic, partition), end in sorted(reader.end_offsets([log]).items()):
        yield from read_log(reader, topic, firsts[topic, partition], end, partition=partition)


def _settle(pending: list[Future[Delivered]], until: dict[int, int]) -> None:
    for future in pending:
        delivered = future.result(timeout=WRITE_S)
        at = delivered.offset + 1
        until[delivered.partition] = max(at, until.get(delivered.partition, 0))
