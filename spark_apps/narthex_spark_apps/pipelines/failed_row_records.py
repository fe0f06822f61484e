"""Records of the quarantine for rows on which a step of a pipeline failed."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import attrs
import structlog

from narthex._base import Json
from narthex._runtime.steps import FailedRow
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.record_batches import RecordCells
from narthex_stores import GREATEST_RECORD_BYTES

log = structlog.get_logger()

_BEGINNING: Final = 64 * 1024
"""How many characters of a row are stored if it is too large for the quarantine."""
_KEY_BYTES: Final = 16


@attrs.define(eq=False)
class FailedRowRecords:
    """Collects the failed rows of one job until their records are appended.

    Attributes:
        job: The job. One that was created before pipelines had a quarantine only counts its rows.
        counts: How many rows have failed in this run, as `quarantined`; empty for a job that has
            no step that may fail.
    """

    job: PipelineJob
    counts: dict[str, int] = attrs.field(init=False)
    _failed: list[FailedRow] = attrs.field(factory=list, init=False)

    @counts.default
    def _begin(self) -> dict[str, int]:
        return {} if self.job.quarantine is None else {"quarantined": 0}

    def add(self, failed: Sequence[FailedRow]) -> None:
        """Note failed rows; `StepContext.set_apart` calls it."""
        self._failed += failed

    def discard(self) -> None:
        """Forget the rows whose records were not taken: their batch is run again."""
        self._failed.clear()

    def take(self) -> list[RecordCells]:
        """Return the records of the rows that were noted, and count these rows."""
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
    value = json.dumps(described).encode()
    if len(value) > GREATEST_RECORD_BYTES:
        value = json.dumps(described | {"payload": payload[:_BEGINNING], "kind": "text"}).encode()
    return hashlib.blake2b(identity, digest_size=_KEY_BYTES).digest(), value
