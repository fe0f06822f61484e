"""The live run of a sink: turn the log of a dataset into changes, and write them to a target.

The current rows, the read offsets and the outbox change in one transaction; after it the changes
are written to the target, and then the outbox is emptied. A crash between the two writes the same
changes once more, in the same order. Each target's module describes how it handles repeated
changes: `kafka`, `http`, `delta`, `postgres`, `snowflake`.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs
import msgspec

from narthex._base import SECOND_US
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.sinks.changes import RowChange, SinkState
from narthex_stores import JobState, Record, StateBatch

MOST_PENDING: Final = 20_000
"""The most changes that wait, however rarely a sink writes."""

_NUMBER_BITS = 40


class SinkFailedError(OSError):
    """A target refuses the changes, or does not answer; they are written again."""


class Target(Protocol):
    """The target of a sink."""

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


@attrs.define
class SinkStage:
    """One sink under one epoch.

    Attributes:
        pending: Number of changes that were taken in and not written yet.
    """

    spec: SinkJobSpec
    epoch: int
    state: JobState
    target: Target
    every_s: float
    clock: Callable[[], float] = time.monotonic
    pending: int = 0
    _mark: int = 0
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
        cls, spec: SinkJobSpec, target: Target, *, directory: Path, epoch: int, every_us: int
    ) -> "SinkStage":
        """Open the state of a sink.

        Raises:
            Fenced: A run of a later epoch has opened the state.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        state = JobState(directory, epoch=epoch)
        return cls(spec=spec, epoch=epoch, state=state, target=target, every_s=every_us / SECOND_US)

    @property
    def is_due(self) -> bool:
        """Whether the changes should be written to the target now."""
        if not self.pending:
            return False
        return self.pending >= MOST_PENDING or self.clock() - self._told_at >= self.every_s

    def take(self, records: Sequence[Record]) -> None:
        """Take in records of the log; the next `tell` writes their changes.

        Raises:
            CorruptFactError: A record is not a fact of the log.
            Fenced: A run of a later epoch has taken over.
        """
        facts = self._codec.decode_many([record.value or b"" for record in records])
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            offsets[record.topic, record.partition] = record.offset + 1

        def work(batch: StateBatch) -> int:
            posted = [
                (change.identity, self._packed(change, batch.number))
                for change in self._sink_state.changes(batch, facts)
            ]
            batch.post(posted)
            batch.advance(offsets)
            return len(posted)

        self.pending += self.state.run(work)

    def tell(self) -> None:
        """Write all pending changes to the target.

        Raises:
            SinkFailedError: The target does not accept them.
            Fenced: A run of a later epoch has taken over.
        """
        found = [self._unpacked(key, value) for key, value in self.state.outbox()]
        if found:
            newest = found[-1][0]
            mark = (self.epoch << _NUMBER_BITS) | newest
            self.target.write([change for _, change in found], mark=mark)
            self.state.empty_outbox()
        self.pending = 0
        self._told_at = self.clock()

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
