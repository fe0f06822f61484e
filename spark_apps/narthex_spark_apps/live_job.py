"""One live job of a driver: its query, how far it is, and its next try when it fails."""

import json
import threading
import time
from collections.abc import Mapping

import attrs
import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex.errors import NarthexError
from narthex.records import Json
from narthex.settings import Settings
from narthex_spark_apps.children import Assignment, Report
from narthex_spark_apps.feeds import LogEnds
from narthex_spark_apps.file_source import FileSource
from narthex_spark_apps.jobs import (
    NotRunnableError,
    checkpoint_of,
    file_source,
    start_query,
)
from narthex_spark_apps.kafka_io import REAL_TIME_S
from narthex_spark_apps.progress import ERROR_LENGTH, Progress

log = structlog.get_logger()

FIRST_PAUSE_S = 1.0
GREATEST_PAUSE_S = 30.0
FILES_EVERY_S = 5.0
LISTEN_EVERY_S = 0.5


@attrs.define
class LiveJob:
    """A job as Spark runs it under one epoch."""

    assignment: Assignment
    session: SparkSession
    settings: Settings
    progress: Progress
    query: StreamingQuery | None = None
    files: FileSource | None = None
    _seen_batch: int = -1
    _pause_s: float = FIRST_PAUSE_S
    _not_before: float = 0.0
    _listened_at: float = float("-inf")
    _files_at: float = float("-inf")
    _files_done: bool = False

    @classmethod
    def of(
        cls, assignment: Assignment, session: SparkSession, settings: Settings, ends: LogEnds
    ) -> "LiveJob":
        """Prepare a job; `tend` starts it."""
        progress = Progress(assignment=assignment, ends=ends, stale_s=REAL_TIME_S + LISTEN_EVERY_S)
        return cls(assignment=assignment, session=session, settings=settings, progress=progress)

    def assign(self, assignment: Assignment) -> None:
        """Go on under a newer generation of the same epoch."""
        self.assignment = self.progress.assignment = assignment

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return self.assignment.asset.physical_name

    def tend(self) -> None:
        """Start what should run and does not; take in what the query says of itself."""
        if self.query is not None and not self.query.isActive:
            self._failed(self.query)
        if self.query is None and self.files is None and time.monotonic() >= self._not_before:
            self._start()
        if self.query is not None:
            self._listen(self.query)
        if self.files is not None and time.monotonic() - self._files_at >= FILES_EVERY_S:
            self._read_files(self.files)

    def _start(self) -> None:
        asset = self.assignment.asset
        try:
            self.files = file_source(lambda: self.session, asset, self.settings)
            if self.files is None:
                fresh = not (checkpoint_of(asset, self.settings) / "live" / "offsets").exists()
                self.query = start_query(
                    self.session,
                    asset,
                    settings=self.settings,
                    bounded=False,
                    starts=self.assignment.start_offsets,
                    epoch=self.assignment.epoch,
                )
                self._begin_at(fresh=fresh)
        except (PySparkException, NotRunnableError) as error:
            self._pause(str(error))
        else:
            log.info("job_started", job=self.name, epoch=self.assignment.epoch)

    def _begin_at(self, *, fresh: bool) -> None:
        """Know where a first start reads from; a later one says so with its first progress."""
        if not fresh:
            return
        self.progress.known = True
        for topic, partition, offset in self.assignment.start_offsets:
            self.progress.read.setdefault(topic, {})[partition] = offset

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
            offsets = source.get("endOffset") if isinstance(source, dict) else None
            for topic, partitions in (offsets or {}).items() if isinstance(offsets, dict) else ():
                if isinstance(partitions, dict):
                    read = self.progress.read.setdefault(topic, {})
                    read |= {int(p): int(str(o)) for p, o in partitions.items()}
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
        """Say how it stands."""
        behind = self.progress.behind()
        if self.files is not None:
            behind = 0 if self._files_done else None
        is_running = self.query is not None or self.files is not None
        return self.progress.report(is_running=is_running, behind=behind)

    @property
    def is_running(self) -> bool:
        """Whether a query of it is not over yet."""
        return self.query is not None and self.query.isActive

    def stop(self) -> None:
        """Stop the query in a thread of its own; what it wrote stays."""
        if self.query is not None:
            threading.Thread(target=self.query.stop, name=f"stop-{self.name}", daemon=True).start()
