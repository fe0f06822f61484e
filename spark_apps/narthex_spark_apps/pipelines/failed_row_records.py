"""Records of the quarantine for rows of a pipeline: a step failed on them, or they break an
enforced expectation.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import attrs
import structlog

from narthex._base import Json
from narthex._ir import is_quarantined
from narthex._runtime.enforcement import BrokenRow
from narthex._runtime.steps import FailedRow
from narthex_spark_apps.facts.broken_counts import breaks, count_broken
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_stores import GREATEST_RECORD_BYTES

log = structlog.get_logger()

_BEGINNING: Final = 64 * 1024
"""How many characters of a row are stored if it is too large for the quarantine."""
_KEY_BYTES: Final = 16
_KNOWN: Final = 10_000
"""The number of broken rows to remember, so that one that is judged again is not counted again."""


@attrs.define(eq=False)
class FailedRowRecords:
    """Collects the failed and broken rows of one job until their records are appended.

    Attributes:
        job: The job. One that was created before pipelines had a quarantine only counts its rows.
        counts: How many rows have failed in this run, as `quarantined`, and how many break each
            expectation (`facts.broken_counts`); empty for a job that has no step that may fail.
    """

    job: PipelineJob
    counts: dict[str, int] = attrs.field(init=False)
    _failed: list[FailedRow] = attrs.field(factory=list, init=False)
    _broken: list[BrokenRow] = attrs.field(factory=list, init=False)
    _known: dict[bytes, None] = attrs.field(factory=dict, init=False)

    @counts.default
    def _begin(self) -> dict[str, int]:
        return {} if self.job.quarantine is None else {"quarantined": 0}

    def add(self, failed: Sequence[FailedRow]) -> None:
        """Note failed rows; `StepContext.set_apart` calls it."""
        self._failed += failed

    def add_broken(self, broken: Sequence[BrokenRow]) -> None:
        """Note rows that break expectations; `StepContext.report_broken` calls it."""
        self._broken += broken

    def discard(self) -> None:
        """Forget the rows whose records were not taken: their batch is run again."""
        self._failed.clear()
        self._broken.clear()

    def take(self) -> list[RecordCells]:
        """Return the records of the rows that were noted, and count these rows."""
        return [*self._take_failed(), *self._take_broken()]

    def _take_broken(self) -> list[RecordCells]:
        broken, topic = self._broken, self.job.quarantine
        self._broken = []
        records: list[RecordCells] = []
        for row in broken:
            key, value = broken_row_record(row, self.job)
            if not self._is_new(key):
                continue
            count_broken(self.counts, row.broken)
            if is_quarantined(row.broken):
                self.counts["quarantined"] = self.counts.get("quarantined", 0) + 1
                records += [] if topic is None else [(topic, key, value)]
        return records

    def _is_new(self, key: bytes) -> bool:
        """Whether a row was not counted lately: a job with state judges the rows of a group again
        when one of them changes.
        """
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return True

    def _take_failed(self) -> list[RecordCells]:
        failed, topic = self._failed, self.job.quarantine
        self._failed = []
        if not failed:
            return []
        before = self.counts.get("quarantined", 0)
        self.counts["quarantined"] = before + len(failed)
        if not before:
            # Once for each run: code that fails on every row would fill the log.
            self._tell(failed)
        if topic is None:
            return []
        return [(topic, *failed_row_record(row, self.job)) for row in failed]

    def _tell(self, failed: Sequence[FailedRow]) -> None:
        log.warning(
            "rows_failed",
            job=self.job.asset.physical_name,
            rows=len(failed),
            error=str(failed[0].error),
        )


def failed_row_record(row: FailedRow, job: PipelineJob) -> tuple[bytes, bytes]:
    """Return the key and the value of a row's record.

    The key depends only on the pipeline, the step, and the row's identity and columns, so that a
    run that is repeated after a crash gives the same record.
    """
    pipeline = f"{job.spec.dataset}.{job.spec.pipeline}"
    payload = json.dumps(dict(row.cells), sort_keys=True)
    identity = json.dumps([pipeline, row.step, row.row_id.hex(), payload]).encode()
    described: dict[str, Json] = {
        "payload": payload,
        "kind": "row",
        "reason": row.error.message,
        "source": f"pipeline {pipeline}",
        "pipeline": pipeline,
        "step": row.step,
        "file": row.error.origin.file,
        "line": row.error.origin.line,
        "row_id": row.row_id.hex(),
        "event_time_us": row.event_time,
        "together": row.together,
    }
    return _record(identity, described)


def broken_row_record(row: BrokenRow, job: PipelineJob) -> tuple[bytes, bytes]:
    """Return the key and the value of the record of a row that breaks expectations.

    The key depends only on the pipeline, and the row's identity and columns.
    """
    pipeline = f"{job.spec.dataset}.{job.spec.pipeline}"
    payload = json.dumps(dict(row.cells), sort_keys=True)
    identity = json.dumps([pipeline, row.row_id.hex(), payload]).encode()
    titles = [one.title for one in row.broken]
    described: dict[str, Json] = {
        "payload": payload,
        "kind": "row",
        "reason": breaks(titles),
        "source": f"pipeline {pipeline}",
        "pipeline": pipeline,
        "row_id": row.row_id.hex(),
        "event_time_us": row.event_time,
        "expectations": list(titles),
    }
    return _record(identity, described)


def _record(identity: bytes, described: dict[str, Json]) -> tuple[bytes, bytes]:
    value = json.dumps(described).encode()
    if len(value) > GREATEST_RECORD_BYTES:
        begun = {"payload": str(described["payload"])[:_BEGINNING], "kind": "text"}
        value = json.dumps(described | begun).encode()
    return hashlib.blake2b(identity, digest_size=_KEY_BYTES).digest(), value
