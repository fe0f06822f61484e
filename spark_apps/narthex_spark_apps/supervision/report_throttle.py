"""Decides which reports of jobs reach the ledger: all changes of state, and some repetitions."""

import time
from collections.abc import Callable

import attrs

from narthex._base import Json
from narthex_ledger import ShardReport
from narthex_spark_apps.supervision.runner_messages import ShardId

PASS_ON_EVERY_S = 1.0
SAME_EVERY_S = 5.0
STREAK = 3
"""This many equal reports are passed on soon: readiness requires several in a row."""


@attrs.frozen
class _PassedOn:
    """The last report of a job that was passed on, and how often it was passed on unchanged."""

    state: tuple[object, ...]
    progress: Json
    at: float
    times: int


@attrs.define
class ReportGate:
    """Passes a report at once if the state of the job has changed, else at intervals."""

    clock: Callable[[], float] = time.monotonic
    _passed: dict[ShardId, _PassedOn] = attrs.field(factory=dict)

    def passes(self, report: ShardReport) -> bool:
        """Whether to send the report to the ledger; if so, it counts as sent."""
        now = self.clock()
        state = (report.epoch, report.generation, report.phase)
        shard_id = ShardId(report.asset_id, report.shard)
        before = self._passed.get(shard_id)
        times = 1
        if before is not None and before.state == state:
            is_same = before.progress == report.progress
            pause_s = SAME_EVERY_S if is_same and before.times >= STREAK else PASS_ON_EVERY_S
            if now - before.at < pause_s:
                return False
            times = before.times + 1 if is_same else 1
        self._passed[shard_id] = _PassedOn(state, report.progress, now, times)
        return True
