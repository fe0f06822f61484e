"""The live run of a sink: a dataset's log becomes changes, and a target is told of them.

What stands, what has been read and what is to be told change in one transaction; the target is
told after it, and then the outbox is emptied. A crash between the two tells the same changes once
more, in the same order. How a target bears that is its own page: `sink_kafka`, `sink_http`,
`sink_delta`, `sink_postgres`.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs
import msgspec

from narthex._base import SECOND_US
from narthex._formats.avro import FactCodec, encode
from narthex._ir import SinkJobSpec
from narthex_spark_apps.sinks.changes import RowChange, SinkState
from narthex_stores import JobState, Record, StateBatch

MOST_PENDING: Final = 20_000
"""How many changes wait at most, however seldom a sink is written."""

_NUMBER_BITS = 40


class SinkFailedError(OSError):
    """A target does not take what it is told, or does not answer; it is told again."""


class Target(Protocol):
    """Where a sink writes to."""

    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Tell changes, in their order; when it returns, the target has them.

        Args:
            changes: Since the last call; after a crash some that were told before.
            mark: Greater than that of all earlier changes, also of an earlier epoch.

        Raises:
            SinkFailedError: Not all of them are known to be told.
        """

    def close(self) -> None:
        """Let go of it."""


@attrs.define
class SinkStage:
    """One sink as it runs under one epoch.

    Attributes:
        pending: How many changes were taken in and not told yet.
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
    _standing: SinkState = attrs.field(init=False)
    _codec: FactCodec = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._standing = SinkState(self.spec)
        self._codec = encode(self.spec.log)
        # What an earlier life of this job may not have told.
        self.pending = len(self.state.outbox())

    @classmethod
    def open(
        cls, spec: SinkJobSpec, target: Target, *, directory: Path, epoch: int, every_us: int
    ) -> "SinkStage":
        """Open the state of a sink.

        Raises:
            Fenced: A run of a later epoch has been here.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        state = JobState(directory, epoch=epoch)
        return cls(spec=spec, epoch=epoch, state=state, target=target, every_s=every_us / SECOND_US)

    @property
    def is_due(self) -> bool:
        """Whether the target is to be told now."""
        if not self.pending:
            return False
        return self.pending >= MOST_PENDING or self.clock() - self._told_at >= self.every_s

    def take(self, records: Sequence[Record]) -> None:
        """Take records of the log in; what they change is told with the next `tell`.

        Raises:
            CorruptFactError: A record is no fact of the log.
            Fenced: A run of a later epoch has taken over.
        """
        facts = self._codec.decode_many([record.value or b"" for record in records])
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            offsets[record.topic, record.partition] = record.offset + 1

        def work(batch: StateBatch) -> int:
            posted = [
                (change.identity, self._packed(change, batch.number))
                for change in self._standing.changes(batch, facts)
            ]
            batch.post(posted)
            batch.advance(offsets)
            return len(posted)

        self.pending += self.state.run(work)

    def tell(self) -> None:
        """Tell the target all that is pending.

        Raises:
            SinkFailedError: It does not take it.
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
        """Let go of the state and the target."""
        self.target.close()
        self.state.close()
