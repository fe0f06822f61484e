"""How far one live job is, however it runs: what was read, counted and failed."""

import time

import attrs

from narthex_spark_apps.children import Assignment, Report
from narthex_spark_apps.feeds import LogEnds
from narthex_spark_apps.jobs import input_topics


@attrs.define
class Progress:
    """What a job says of itself.

    Attributes:
        read: The next offset to read, by topic and partition.
        counts: Rows that came, were quarantined or left out since this process began.
        known: Whether `read` says where the job stands.
    """

    assignment: Assignment
    ends: LogEnds
    read: dict[str, dict[int, int]] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    error: str | None = None
    restarts: int = 0
    known: bool = False
    _behind_since: float | None = None

    def behind(self) -> int | None:
        """Give how many records of its topics it has not read; None while that is not known."""
        if not self.known:
            return None
        ends = self.ends.known()
        topics = input_topics(self.assignment.asset)
        if any(topic not in ends for topic in topics):
            return None
        return sum(
            max(0, end - self.read.get(topic, {}).get(partition, 0))
            for topic in topics
            for partition, end in ends[topic].items()
        )

    def report(self, *, is_running: bool, behind: int | None) -> Report:
        """Say how the job stands."""
        now = time.monotonic()
        self._behind_since = (self._behind_since or now) if behind else None
        phase = "failed" if self.error and not is_running else "starting"
        if is_running and behind is not None:
            phase = "running" if behind else "caught_up"
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
                "watermark": self.counts.get("newest"),
                "restarts": self.restarts,
                "error": self.error,
            },
        )
