"""The progress of one job, on whatever carries it: offsets read, counts, errors, and its phase."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import attrs

from narthex._base import Json
from narthex_spark_apps.supervision.runner_messages import Report, WorkAssignment

SAMPLE_EVERY_S = 0.5
_COARSE_US = 30_000_000
ERROR_LENGTH = 2000
"""How much of an error is reported; a stack trace of Spark can be very long."""


def describe_error(error: BaseException) -> str:
    """Describe an error, cut to the reported length."""
    return f"{type(error).__name__}: {error}"[:ERROR_LENGTH]


TopicOffsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""The next offset, by topic and partition."""


class EndOffsets(Protocol):
    """Reads the end offsets of topics."""

    def known(self) -> TopicOffsets:
        """Return the next offset of each partition of each topic that is visible so far."""


@attrs.frozen
class NoEndOffsets:
    """End offsets of topics whose broker is not known yet."""

    def known(self) -> TopicOffsets:
        """Return no offsets."""
        return {}


def reads_all(_partition: int) -> bool:
    """Return True: a job of one shard reads every partition."""
    return True


@attrs.define
class Progress:
    """The progress that a job reports; its carrier writes it.

    Attributes:
        topics: The topics that the job reads; empty for files and tables.
        reads: Whether the job, or this shard of it, reads a partition of its topics.
        read: The next offset to read, by topic and partition.
        known: Whether `read` is the actual read position of the job.
        is_running: Whether the present run of the job has started its work.
        stale_s: How old `read` may be while the job works. The phase compares `read` with the end
            offsets from that long ago; otherwise a job under load would never be caught up.
        details: Other numbers of the job, for people and metrics.
        error: Why the last run failed; a job that has caught up has overcome it.
        restarts: How many runs have failed.
        succeeded_us: For a source or a sink, when its broker, table, directory or target last
            answered without an error, microseconds since 1970. Later runs keep it.
    """

    topics: tuple[str, ...] = ()
    ends: EndOffsets = NoEndOffsets()
    read: TopicOffsets = attrs.field(factory=dict)
    known: bool = False
    is_running: bool = False
    stale_s: float = 1.0
    details: Mapping[str, Json] = attrs.field(factory=dict)
    error: str | None = None
    restarts: int = 0
    succeeded_us: int | None = None
    reads: Callable[[int], bool] = reads_all
    clock: Callable[[], float] = time.monotonic
    _samples: deque[tuple[float, TopicOffsets]] = attrs.field(factory=deque)
    _behind_since: float | None = None
    _has_followed: bool = False

    def behind(self) -> int | None:
        """Return the number of unread records in its topics; None while that is unknown."""
        if not self.known:
            return None
        return self._behind(self.ends.known())

    def _behind(self, ends: TopicOffsets) -> int | None:
        if any(topic not in ends for topic in self.topics):
            return None
        return sum(
            max(0, end - self.read.get(topic, {}).get(partition, 0))
            for topic in self.topics
            for partition, end in ends[topic].items()
            if self.reads(partition)
        )

    def _is_caught_up(self, behind: int) -> bool:
        """Whether the job has read everything that its topics held `stale_s` ago."""
        now = self.clock()
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_EVERY_S:
            self._samples.append((now, self.ends.known()))
        while len(self._samples) > 1 and now - self._samples[1][0] >= self.stale_s:
            self._samples.popleft()
        if behind == 0:
            return True
        since, ends = self._samples[0]
        # When `stale_s` has just grown, the samples do not reach back far enough yet. A job that
        # was caught up until then stays caught up unless the samples show it to be behind.
        is_old = now - since >= self.stale_s
        self._has_followed = (is_old or self._has_followed) and self._behind(ends) == 0
        return self._has_followed

    def _phase(self, behind: int | None) -> str:
        if not self.is_running:
            return "failed" if self.error else "starting"
        if behind is None:
            return "starting"
        return "caught_up" if self._is_caught_up(behind) else "running"

    def succeed(self, at_us: int | None) -> None:
        """Note that a source or a sink worked at an instant; None if that is not known."""
        # Rounded down, because equal reports are passed on to the ledger less often.
        self.succeeded_us = self.succeeded_us if at_us is None else at_us - at_us % _COARSE_US

    def report(self, assignment: WorkAssignment) -> Report:
        """Report the state of the job under its newest assignment."""
        now = self.clock()
        behind = self.behind()
        self._behind_since = (self._behind_since or now) if behind else None
        phase = self._phase(behind)
        if phase == "caught_up":
            self.error = None
        return Report(
            asset_id=assignment.asset.asset_id,
            shard=assignment.shard,
            epoch=assignment.epoch,
            generation=assignment.generation,
            phase=phase,
            lag_ms=round((now - self._behind_since) * 1000) if self._behind_since else 0,
            progress={
                "offsets": {
                    topic: {str(p): o for p, o in sorted(read.items())}
                    for topic, read in sorted(self.read.items())
                },
                "behind": behind,
                "restarts": self.restarts,
                "succeeded_at": self.succeeded_us,
                "error": self.error,
                **self.details,
            },
        )
