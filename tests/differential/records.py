"""The records of the topics of a round, in order of arrival, and their end offsets."""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes
from narthex._ir.assets import LogShape, LogSpec
from narthex._ir.facts import TOMBSTONE_TIME, Fact
from narthex_stores import EndOffsetReader, LogReader, PartitionKey, Record, TransientError

_POLL_S = 0.05
_WAIT_S = 120.0
_MANY = 100_000
_SOME = 50
_LEADER_S = 0.2


class Records:
    """All records of some topics, from their beginnings."""

    def __init__(self, bootstrap: str) -> None:
        """Read nothing yet."""
        self._tips = EndOffsetReader(bootstrap)
        self._reader = LogReader(bootstrap, fetch_wait_ms=500)
        self._places: dict[str, list[PartitionKey]] = {}
        self.kept: dict[PartitionKey, list[Record]] = {}

    def watch(self, topics: Iterable[str]) -> None:
        """Read these topics, all of which are there or will be soon, from their beginnings."""
        new = sorted(set(topics) - set(self._places))
        while new:
            self._places |= self._shown(new[:_SOME])
            new = new[_SOME:]
        self.kept = {place: [] for places in self._places.values() for place in places}
        self._reader.assign(dict.fromkeys(self.kept, 0))

    def _shown(self, topics: Sequence[str]) -> dict[str, list[PartitionKey]]:
        """Wait for topics that were just made to have leaders; return their partitions."""
        ends_at = time.monotonic() + _WAIT_S
        ends: Mapping[str, Mapping[int, int]] = {}
        while True:
            with contextlib.suppress(TransientError):
                ends = self._tips.ends(topics)
            if set(topics) <= set(ends):
                return {t: [(t, partition) for partition in sorted(ends[t])] for t in topics}
            if time.monotonic() > ends_at:
                raise TimeoutError(f"the broker does not show {sorted(set(topics) - set(ends))}")
            # To ask is work for the broker, too.
            time.sleep(_LEADER_S)

    def places(self, topics: Iterable[str]) -> list[PartitionKey]:
        """Return the partitions of topics."""
        return [place for topic in topics for place in self._places[topic]]

    def pull(self) -> dict[PartitionKey, int]:
        """Read up to the end offsets at the time of the call; return them."""
        ends_at = time.monotonic() + _WAIT_S
        ends = self._ends(ends_at)
        while any(len(self.kept[place]) < end for place, end in ends.items()):
            for record in self._reader.poll(max_records=_MANY, timeout_s=_POLL_S):
                kept = self.kept[record.topic, record.partition]
                if record.offset != len(kept):
                    raise RuntimeError(f"record {record.offset} of {record.topic} comes too early")
                kept.append(record)
            if time.monotonic() > ends_at:
                raise TimeoutError("the broker does not give what it has")
        return ends

    def _ends(self, ends_at: float) -> dict[PartitionKey, int]:
        while True:
            try:
                found = self._tips.ends(self._places)
            except TransientError:
                if time.monotonic() > ends_at:
                    raise
                time.sleep(_POLL_S)
            else:
                return {(t, p): end for t, ends in found.items() for p, end in ends.items()}

    def of(self, topic: str) -> Sequence[Record]:
        """Return the records of a topic that were read, partition after partition."""
        return [record for place in self.places([topic]) for record in self.kept[place]]

    def are_read(self, at: Mapping[PartitionKey, int], topics: Iterable[str]) -> bool:
        """Whether a reader of topics has read up to the end offsets of the last `pull`."""
        return all(at.get(place, 0) >= len(self.kept[place]) for place in self.places(topics))

    def close(self) -> None:
        """End."""
        self._reader.close()


def facts_standing(records: Sequence[Record], spec: LogSpec) -> tuple[Fact, ...]:
    """Return the facts of a log, as an engine returns the facts of a dataset.

    For each identity the state with the highest version counts, in any order of arrival. Keyed rows
    that never existed, and absences that end no row, are omitted.
    """
    newest: dict[bytes, Fact] = {}
    for fact in fact_codec(spec).decode_many([record.value or b"" for record in records]):
        known = newest.get(fact.row_id)
        if known is None or fact.version > known.version:
            newest[fact.row_id] = fact
    ordered = sorted(newest.values(), key=lambda fact: (fact.event_time, fact.row_id))
    if spec.shape is not LogShape.KEYED:
        return tuple(fact for fact in ordered if fact.alive)
    kept: list[Fact] = []
    before: dict[bytes, Fact] = {}
    for fact in ordered:
        if fact.event_time == TOMBSTONE_TIME:
            continue
        key = key_bytes(spec.keys, fact.key)
        ended = before.get(key)
        if fact.alive or (ended is not None and ended.alive):
            kept.append(fact)
        before[key] = fact
    return tuple(kept)
