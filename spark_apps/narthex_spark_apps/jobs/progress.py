"""The progress of one live job, on Spark or in Python: offsets read, counts and errors."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import attrs

from narthex_spark_apps.jobs.start import input_topics
from narthex_spark_apps.supervision.child_messages import Report, WorkAssignment

SAMPLE_EVERY_S = 0.5
ERROR_LENGTH = 2000
"""How much of an error is reported; a stack trace of Spark can be very long."""


def describe_error(error: BaseException) -> str:
    """Describe an error, cut to the reported length."""
    return f"{type(error).__name__}: {error}"[:ERROR_LENGTH]


TopicEnds: TypeAlias = Mapping[str, Mapping[int, int]]


class KnowsEnds(Protocol):
    """Knows the end offsets of topics."""

    def known(self) -> Mapping[str, Mapping[int, int]]:
        """Return the next offset of each partition of each topic that is visible so far."""


@attrs.frozen
class NothingKnown:
    """End offsets of topics whose broker is not known yet."""

    def known(self) -> Mapping[str, Mapping[int, int]]:
        """Return no offsets."""
        return {}


@attrs.define
class Progress:
    """The progress that a job reports.

    Attributes:
        read: The next offset to read, by topic and partition.
        counts: Rows that arrived, were quarantined or were filtered since this process started.
        known: Whether `read` is the actual read position of the job.
        stale_s: How old `read` may be while the job works. The phase compares `read` with the end
            offsets from that long ago; otherwise a job under load would never be caught up.
    """

    assignment: WorkAssignment
    ends: KnowsEnds
    read: dict[str, dict[int, int]] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    error: str | None = None
    restarts: int = 0
    known: bool = False
    stale_s: float = 1.0
    clock: Callable[[], float] = time.monotonic
    _samples: deque[tuple[float, TopicEnds]] = attrs.field(factory=deque)
    _behind_since: float | None = None
    _has_followed: bool = False

    def behind(self) -> int | None:
        """Return the number of unread records in its topics; None while that is unknown."""
        if not self.known:
            return None
        return self._behind(self.ends.known())

    def _behind(self, ends: TopicEnds) -> int | None:
        topics = input_topics(self.assignment.asset)
        if any(topic not in ends for topic in topics):
            return None
        return sum(
            max(0, end - self.read.get(topic, {}).get(partition, 0))
            for topic in topics
            for partition, end in ends[topic].items()
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

    def report(self, *, is_running: bool, behind: int | None) -> Report:
        """Report the state of the job."""
        now = self.clock()
        self._behind_since = (self._behind_since or now) if behind else None
        phase = "failed" if self.error and not is_running else "starting"
        if is_running and behind is not None:
            phase = "caught_up" if self._is_caught_up(behind) else "running"
        return Report(
            asset_id=self.assignment.asset.asset_id,
            epoch=self.assignment.epoch,
            generation=self.assignment.generation,
            phase=phase,
            lag_ms=round((now - self._behind_since) * 1000) if self._behind_since else 0,
            progress={
                "offsets": {
                    topic: {str(p): o for p, o in sorted(read.items())}
                    for topic, read in sorted(self.read.items())
                },
                "behind": behind,
                "rows": self.counts.get("rows"),
                "quarantined": self.counts.get("quarantined"),
                "left_out": self.counts.get("left_out"),
                "newest_event_time": self.counts.get("newest"),
                "restarts": self.restarts,
                "error": self.error,
            },
        )
