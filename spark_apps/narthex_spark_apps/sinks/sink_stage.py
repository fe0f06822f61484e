"""The live run of a sink: turn the log of a dataset into changes, and write them to a target.

The current rows, the read offsets and the outbox change in one transaction. After it the changes
are written to the target, then the read offsets are committed to the sink's consumer group, and
then the outbox is emptied. A crash in between writes the same changes once more, in the same order.
Each target's module describes how it handles repeated changes: `kafka`, `http`, `delta`,
`postgres`, `snowflake`.

The state is on one machine, and the target has what runs on other machines wrote. So each run
starts at the committed offsets: facts before them change its state, and are not written again.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs
import msgspec
import structlog

from narthex._base import SECOND_US
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import Fact, SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.sinks.changes import RowChange, SinkState
from narthex_stores import JobState, PartitionKey, Record, StateBatch

log = structlog.get_logger()

MOST_PENDING: Final = 20_000
"""The most changes that wait, however rarely a sink writes."""

AFFIRM_EVERY_S: Final = 60.0
"""How often the offsets are committed without changes: a cluster forgets them after days."""

_NUMBER_BITS = 40


class SinkFailedError(OSError):
    """A target refuses the changes, or does not answer; they are written again."""


class Target(Protocol):
    """The target of a sink."""

    def claim(self) -> None:
        """Let the target refuse other runs that have claimed it before, if it can.

        Raises:
            SinkFailedError: The target does not answer.
        """
        return

    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Write changes in their order; on return, the target has them.

        Args:
            changes: Those since the last call; after a crash, some may have been written before.
            mark: Greater than the mark of all earlier changes, also of those of an earlier epoch.

        Raises:
            SinkFailedError: The target may not have all of the changes.
        """

    def close(self) -> None:
        """Close the connection to the target."""


class OpensTarget(Protocol):
    """Opens the target of a sink."""

    def __call__(self, spec: SinkJobSpec, *, name: str, settings: Settings) -> Target:
        """Open the target of a job, whose name no other job has."""


class WrittenPositions(Protocol):
    """The offsets of the log up to which the target has all changes; all machines see them."""

    def load(self, places: Iterable[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Return the offsets of partitions; a partition without one is missing.

        Raises:
            Fenced: A run of a later epoch has taken over.
        """

    def keep(self, positions: Mapping[PartitionKey, int]) -> None:
        """Store offsets, so that runs of earlier epochs are refused from now on.

        Raises:
            Fenced: A run of a later epoch has taken over; nothing was stored.
        """


@attrs.define
class SinkStage:
    """One sink under one epoch.

    Attributes:
        written: Up to where the target has all changes.
        pending: Number of changes that were taken in and not written yet.
    """

    spec: SinkJobSpec
    epoch: int
    state: JobState
    target: Target
    written: WrittenPositions
    every_s: float
    clock: Callable[[], float] = time.monotonic
    pending: int = 0
    _known_until: Mapping[PartitionKey, int] = attrs.field(factory=dict)
    _told_at: float = float("-inf")
    _sink_state: SinkState = attrs.field(init=False)
    _codec: FactCodec = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sink_state = SinkState(self.spec)
        self._codec = fact_codec(self.spec.log)
        # Changes that an earlier run of this job may not have written.
        self.pending = len(self.state.outbox())

    @classmethod
    def open(
        cls,
        spec: SinkJobSpec,
        target: Target,
        *,
        written: WrittenPositions,
        directory: Path,
        epoch: int,
        every_us: int,
    ) -> "SinkStage":
        """Open the state of a sink.

        Raises:
            Fenced: A run of a later epoch has opened the state.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        state = JobState(directory, epoch=epoch)
        return cls(
            spec=spec,
            epoch=epoch,
            state=state,
            target=target,
            written=written,
            every_s=every_us / SECOND_US,
        )

    def resume(self, firsts: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Take over what earlier runs wrote, on this machine or another; return where to read on.

        Another run may have written later changes than this state has seen. Then the changes in
        the outbox are outdated, and writing them would take the target back: the state is emptied,
        and made again from the whole log.

        Args:
            firsts: The offset of the first record of each partition of the log.

        Raises:
            Fenced: A run of a later epoch has taken over.
        """
        written, stored = self.written.load(firsts), self.state.offsets()
        if self.pending and any(stored.get(place, 0) < at for place, at in written.items()):
            log.warning("sink_state_is_older_than_target", dataset=self.spec.dataset)
            self.state.clear()
            self.pending, stored = 0, {}
        self._known_until = {place: written.get(place, first) for place, first in firsts.items()}
        starts = {place: max(first, stored.get(place, first)) for place, first in firsts.items()}
        # From now on, runs of earlier epochs are refused.
        self.written.keep(self._known_until)
        return starts

    @property
    def is_due(self) -> bool:
        """Whether `tell` should be called now."""
        waited_s = self.clock() - self._told_at
        if not self.pending:
            return waited_s >= AFFIRM_EVERY_S
        return self.pending >= MOST_PENDING or waited_s >= self.every_s

    def take(self, records: Sequence[Record]) -> None:
        """Take in records of the log; the next `tell` writes their changes.

        Raises:
            CorruptFactError: A record is not a fact of the log.
            Fenced: A run of a later epoch has taken over.
        """
        facts = self._codec.decode_many([record.value or b"" for record in records])
        offsets: dict[PartitionKey, int] = {}
        known: list[Fact] = []
        new: list[Fact] = []
        for record, fact in zip(records, facts, strict=True):
            place = record.topic, record.partition
            offsets[place] = record.offset + 1
            is_known = record.offset < self._known_until.get(place, 0)
            (known if is_known else new).append(fact)

        def work(batch: StateBatch) -> int:
            # All facts of a row are in one partition, so the known ones are its earlier ones.
            for _ in self._sink_state.changes(batch, known):
                pass
            posted = [
                (change.identity, self._packed(change, batch.number))
                for change in self._sink_state.changes(batch, new)
            ]
            batch.post(posted)
            batch.advance(offsets)
            return len(posted)

        self.pending += self.state.run(work)

    def tell(self) -> int:
        """Write all pending changes to the target, commit the read offsets, and count the changes.

        Raises:
            SinkFailedError: The target does not accept them.
            Fenced: A run of a later epoch has taken over.
        """
        found = [self._unpacked(key, value) for key, value in self.state.outbox()]
        if found:
            newest = found[-1][0]
            mark = (self.epoch << _NUMBER_BITS) | newest
            # In this order: a later run stores its epoch first, and then claims the target.
            self.target.claim()
            self.written.load(self._written_until())
            self.target.write([change for _, change in found], mark=mark)
        # Before the outbox is emptied: what a state without one has seen is written.
        self.written.keep(self._written_until())
        if found:
            self.state.empty_outbox()
        self.pending = 0
        self._told_at = self.clock()
        return len(found)

    def _written_until(self) -> dict[PartitionKey, int]:
        """Return where the target is once the outbox is written; a state may not be there yet."""
        read, known = self.state.offsets(), self._known_until
        return {place: max(read.get(place, 0), known.get(place, 0)) for place in {*read, *known}}

    def _packed(self, change: RowChange, number: int) -> bytes:
        before, after = (
            None if fact is None else self._codec.encode(fact)
            for fact in (change.before, change.after)
        )
        return msgspec.msgpack.encode((number, before, after, change.at_us))

    def _unpacked(self, identity: bytes, value: bytes) -> tuple[int, RowChange]:
        number, before, after, at_us = msgspec.msgpack.decode(value)
        change = RowChange(
            identity=identity,
            before=None if before is None else self._codec.decode(before),
            after=None if after is None else self._codec.decode(after),
            at_us=at_us,
        )
        return int(number), change

    def close(self) -> None:
        """Close the state and the target."""
        self.target.close()
        self.state.close()
