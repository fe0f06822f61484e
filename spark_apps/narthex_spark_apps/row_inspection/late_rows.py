"""The late rows of a dataset, derived from the dataset's own log.

Lateness depends on positions in the source, which the log contains. So the list is a function of
the log: nothing else is stored, a restart loses nothing, and every query returns the same list.
Reading the list takes some 200 bytes of memory for each row.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from narthex._formats.avro import fact_codec
from narthex._ir import Cell, Fact, LogShape, LogSpec, parse_position
from narthex._runtime.ingest import LateRow
from narthex_stores import Record

_CHUNK: Final = 10_000


@attrs.frozen(kw_only=True)
class LateEntry:
    """A row that came late.

    Attributes:
        row: Its position in its source, and how late it is.
        row_id: Its identity in the dataset.
        log_partition: With `log_offset`, its position in the dataset's log.
        alive: False if it ended a row.
        arrived_ms: When the log received it, milliseconds.
        values: The cells of its value columns, in the order of the log; nulls if it ended a row.
        until: The event time of the next row of its key, in microseconds, where its effect ends;
            None if it is the newest row, or the dataset has no key.
    """

    row: LateRow
    row_id: bytes
    log_partition: int
    log_offset: int
    alive: bool
    arrived_ms: int
    values: tuple[Cell, ...]
    until: int | None = None


@attrs.frozen
class _Seen:
    fact: Fact
    partition: int
    offset: int
    arrived_ms: int


def late_rows(
    records: Iterable[Record], log: LogSpec, disorder_by_source: Mapping[str, int]
) -> tuple[LateEntry, ...]:
    """Return all late rows of a log, in the order of their sources.

    A row is late if an earlier position of its own source partition has an event time more than
    `disorder` after its own. Rows of unnamed sources are skipped.

    Args:
        records: The whole log of a dataset that sources write.
        log: The columns of its facts.
        disorder_by_source: `disorder` in microseconds, by source id.
    """
    by_place: dict[tuple[str, int], dict[bytes, _Seen]] = {}
    times: dict[tuple[object, ...], list[int]] = {}
    for seen in _facts(records, log):
        fact = seen.fact
        at = fact.version if log.shape is LogShape.KEYED else fact.row_id
        position = parse_position(at)
        rows = by_place.setdefault((position.source_id, position.partition), {})
        # An update that changes the key is two facts at one position; each may be late.
        known = rows.setdefault(at + b"\x00" + fact.row_id, seen)
        if known is seen and log.shape is LogShape.KEYED:
            times.setdefault(fact.key, []).append(fact.event_time)
    for instants in times.values():
        instants.sort()
    found: list[LateEntry] = []
    for (source_id, _), rows in sorted(by_place.items()):
        # For a source with many files, each file's path follows the source id.
        disorder_us = disorder_by_source.get(
            source_id, disorder_by_source.get(source_id.rpartition("#")[0])
        )
        if disorder_us is not None:
            found += _late(rows, disorder_us, times)
    return tuple(found)


def _facts(records: Iterable[Record], log: LogSpec) -> Iterator[_Seen]:
    codec = fact_codec(log)
    chunk: list[Record] = []

    def decoded() -> Iterator[_Seen]:
        facts = codec.decode_many([one.value or b"" for one in chunk])
        for record, fact in zip(chunk, facts, strict=True):
            yield _Seen(fact, record.partition, record.offset, record.timestamp_ms)

    for record in records:
        chunk.append(record)
        if len(chunk) == _CHUNK:
            yield from decoded()
            chunk = []
    yield from decoded()


def _late(
    rows: Mapping[bytes, _Seen],
    disorder_us: int,
    times: Mapping[tuple[object, ...], list[int]],
) -> Iterator[LateEntry]:
    greatest: int | None = None
    for at, seen in sorted(rows.items(), key=lambda one: one[0]):
        fact = seen.fact
        late_us = 0 if greatest is None else greatest - disorder_us - fact.event_time
        if late_us > 0:
            yield _entry(at, seen, late_us, _next(times.get(fact.key, []), fact.event_time))
        elif greatest is None or fact.event_time > greatest:
            greatest = fact.event_time


def _next(instants: list[int], event_time: int) -> int | None:
    place = bisect_right(instants, event_time)
    return instants[place] if place < len(instants) else None


def _entry(at: bytes, seen: _Seen, late_us: int, until: int | None) -> LateEntry:
    fact = seen.fact
    position = parse_position(at)
    row = LateRow(
        source_id=position.source_id,
        partition=position.partition,
        offset=position.offset,
        ordinal=position.ordinal,
        key=fact.key,
        event_time=fact.event_time,
        late_us=late_us,
    )
    return LateEntry(
        row=row,
        row_id=fact.row_id,
        log_partition=seen.partition,
        log_offset=seen.offset,
        alive=fact.alive,
        arrived_ms=seen.arrived_ms,
        values=fact.values,
        until=until,
    )
