"""One live job of a driver: its query, its progress, and its next attempt after a failure."""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import attrs
import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._base import Json
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_spark_apps.jobs.progress import ERROR_LENGTH, Progress
from narthex_spark_apps.jobs.start import (
    NotRunnableError,
    checkpoint_of,
    file_source,
    start_query,
)
from narthex_spark_apps.platform.kafka_io import REAL_TIME_S
from narthex_spark_apps.platform.log_consumer import LogEnds
from narthex_spark_apps.sources.files.source import FileSource
from narthex_spark_apps.supervision.child_messages import Report, WorkAssignment

log = structlog.get_logger()

FIRST_PAUSE_S = 1.0
GREATEST_PAUSE_S = 30.0
FILES_EVERY_S = 5.0
LISTEN_EVERY_S = 0.5

SparkOffsets: TypeAlias = dict[str, dict[int, int]]
"""The next offset to read, by topic and partition."""


@attrs.define
class LiveJob:
    """A job that Spark runs under one epoch."""

    assignment: WorkAssignment
    session: SparkSession
    settings: Settings
    progress: Progress
    query: StreamingQuery | None = None
    files: FileSource | None = None
    interval_s: int = REAL_TIME_S
    _after: tuple["LiveJob", ...] = ()
    _ending: StreamingQuery | None = None
    _seen_batch: int = -1
    _pause_s: float = FIRST_PAUSE_S
    _not_before: float = 0.0
    _listened_at: float = float("-inf")
    _files_at: float = float("-inf")
    _files_done: bool = False

    @classmethod
    def of(
        cls,
        assignment: WorkAssignment,
        session: SparkSession,
        settings: Settings,
        ends: LogEnds,
        *,
        after: tuple["LiveJob", ...] = (),
    ) -> "LiveJob":
        """Prepare a job; `reconcile` starts it once the earlier runs in `after` are over.

        Two runs of one job in one driver would share a name and a checkpoint.
        """
        progress = Progress(assignment=assignment, ends=ends, stale_s=REAL_TIME_S + LISTEN_EVERY_S)
        return cls(
            assignment=assignment,
            session=session,
            settings=settings,
            progress=progress,
            after=after,
        )

    def assign(self, assignment: WorkAssignment) -> None:
        """Continue under a newer generation of the same epoch."""
        self.assignment = self.progress.assignment = assignment

    @property
    def name(self) -> str:
        """The name of the job in logs."""
        return self.assignment.asset.physical_name

    def reconcile(self, *, interval_s: int = REAL_TIME_S) -> None:
        """Start the query if it should run and does not; take in its progress.

        Args:
            interval_s: The length of its intervals. A job that never ran gets the shortest ones,
                because readers wait for its first progress report.
        """
        if self.query is not None and not self.query.isActive:
            self._failed(self.query)
        if self._ending is not None and not self._is_known(self._ending):
            self._ending = None
        self._after = tuple(job for job in self._after if job.is_running)
        is_free = self._ending is None and not self._after
        is_due = is_free and time.monotonic() >= self._not_before
        if self.query is None and self.files is None and is_due:
            self._start(interval_s)
        if self.query is not None:
            self._listen(self.query)
        if self.files is not None and time.monotonic() - self._files_at >= FILES_EVERY_S:
            self._read_files(self.files)

    def is_short(self, interval_s: int) -> bool:
        """Whether the job has committed offsets and its intervals are much shorter than these."""
        has_told = self.query is not None and self._seen_batch >= 0
        if not has_told or interval_s < 2 * self.interval_s:
            return False
        # Spark reports an interval before committing it: a query stopped in between starts anew.
        return committed_offsets(self._checkpoint) is not None

    @property
    def _checkpoint(self) -> Path:
        return checkpoint_of(self.assignment.asset, self.settings) / "live"

    def start_again(self) -> None:
        """Stop the query; `reconcile` resumes it from its checkpoint with other intervals."""
        self.stop()
        self._ending, self.query = self.query, None

    def _start(self, interval_s: int) -> None:
        asset = self.assignment.asset
        try:
            self.files = file_source(lambda: self.session, asset, self.settings)
            if self.files is None:
                committed = committed_offsets(self._checkpoint)
                self.interval_s = REAL_TIME_S if committed is None else interval_s
                self.progress.stale_s = self.interval_s + LISTEN_EVERY_S
                self._seen_batch = -1
                self.query = start_query(
                    self.session,
                    asset,
                    settings=self.settings,
                    bounded=False,
                    starts=self.assignment.start_offsets,
                    epoch=self.assignment.epoch,
                    interval_s=self.interval_s,
                )
                self._begin_at(committed)
        except (PySparkException, NotRunnableError) as error:
            self._pause(str(error))
        else:
            log.info("job_started", job=self.name, epoch=self.assignment.epoch)

    def _begin_at(self, committed: SparkOffsets | None) -> None:
        """Set the read position: the checkpoint's, or else the assigned start offsets."""
        self.progress.known = True
        found = committed
        if found is None:
            found = {}
            for topic, partition, offset in self.assignment.start_offsets:
                found.setdefault(topic, {})[partition] = offset
        self._read_up_to(found)

    def _read_up_to(self, offsets: SparkOffsets) -> None:
        for topic, partitions in offsets.items():
            self.progress.read.setdefault(topic, {}).update(partitions)

    def _failed(self, query: StreamingQuery) -> None:
        error = query.exception()
        self._pause(str(error) if error else "the query ended")
        self.query = None

    def _pause(self, error: str) -> None:
        self.progress.error = error[:ERROR_LENGTH]
        self.progress.restarts += 1
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(GREATEST_PAUSE_S, self._pause_s * 2)
        log.warning("job_failed", job=self.name, error=self.progress.error)

    def _listen(self, query: StreamingQuery) -> None:
        now = time.monotonic()
        if now - self._listened_at < LISTEN_EVERY_S:
            return
        self._listened_at = now
        progress = query.lastProgress
        if progress is not None and progress.batchId != self._seen_batch:
            self._seen_batch = progress.batchId
            self._take_in(json.loads(progress.json))

    def _take_in(self, said: Mapping[str, Json]) -> None:
        sources = said.get("sources")
        for source in sources if isinstance(sources, list) else []:
            self._read_up_to(
                _offsets(source.get("endOffset") if isinstance(source, dict) else None)
            )
        self.progress.known = True
        self.progress.error = None
        self._pause_s = FIRST_PAUSE_S

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self.progress.counts[name] = self.progress.counts.get(name, 0) + number

    def _read_files(self, files: FileSource) -> None:
        self._files_at = time.monotonic()
        try:
            for file in files.unread():
                self._count(files.read(file))
            self._files_done = True
            self.progress.error = None
        except (PySparkException, NarthexError, OSError) as error:
            self.progress.error = str(error)[:ERROR_LENGTH]

    def report(self) -> Report:
        """Report the state of the job."""
        behind = self.progress.behind()
        if self.files is not None:
            behind = 0 if self._files_done else None
        is_running = self.query is not None or self.files is not None
        return self.progress.report(is_running=is_running, behind=behind)

    @property
    def is_running(self) -> bool:
        """Whether a query of the job is not over yet."""
        queries = (self.query, self._ending)
        return any(query is not None and self._is_known(query) for query in queries)

    def _is_known(self, query: StreamingQuery) -> bool:
        """Whether Spark still has the query: its name stays taken a moment after it ends."""
        return query.isActive or any(one.id == query.id for one in self.session.streams.active)

    def stop(self) -> None:
        """Stop the query in a separate thread; its output stays."""
        if self.query is not None:
            threading.Thread(target=self.query.stop, name=f"stop-{self.name}", daemon=True).start()


def committed_offsets(checkpoint: Path) -> SparkOffsets | None:
    """Read the committed offsets of a query from its checkpoint; None if it has committed none."""
    numbers = [int(one.name) for one in (checkpoint / "commits").glob("*") if one.name.isdigit()]
    if not numbers:
        return None
    found: SparkOffsets = {}
    # One line for the format, one of metadata, then one line for each source.
    for line in (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[2:]:
        for topic, partitions in _offsets(json.loads(line)).items():
            found.setdefault(topic, {}).update(partitions)
    return found


def _offsets(told: Json) -> SparkOffsets:
    """Read the offsets of a source in the form that Spark reports."""
    return {
        topic: {int(partition): int(str(offset)) for partition, offset in partitions.items()}
        for topic, partitions in (told.items() if isinstance(told, dict) else ())
        if isinstance(partitions, dict)
    }
