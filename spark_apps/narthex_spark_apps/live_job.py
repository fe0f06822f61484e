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

from narthex.records import Json
from narthex.settings import Settings
from narthex_spark_apps.children import Assignment, Report
from narthex_spark_apps.feeds import LogEnds
from narthex_spark_apps.file_source import FileSource
from narthex_spark_apps.jobs import (
    NotRunnableError,
    checkpoint_of,
    file_source,
    input_topics,
    start_query,
)

log = structlog.get_logger()

FIRST_PAUSE_S = 1.0
GREATEST_PAUSE_S = 30.0
FILES_EVERY_S = 5.0
ERROR_LENGTH = 2000


@attrs.define
class LiveJob:
    """A job as it runs under one epoch."""

    assignment: Assignment
    session: SparkSession
    settings: Settings
    ends: LogEnds
    query: StreamingQuery | None = None
    files: FileSource | None = None
    error: str | None = None
    read: dict[str, dict[int, int]] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    restarts: int = 0
    _seen_batch: int = -1
    _pause_s: float = FIRST_PAUSE_S
    _not_before: float = 0.0
    _behind_since: float | None = None
    _files_at: float = float("-inf")
    _files_done: bool = False
    _known: bool = False

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
            self.files = file_source(self.session, asset, self.settings)
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
        self._known = True
        for topic, partition, offset in self.assignment.start_offsets:
            self.read.setdefault(topic, {})[partition] = offset

    def _failed(self, query: StreamingQuery) -> None:
        error = query.exception()
        self._pause(str(error) if error else "the query ended")
        self.query = None

    def _pause(self, error: str) -> None:
        self.error = error[:ERROR_LENGTH]
        self.restarts += 1
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(GREATEST_PAUSE_S, self._pause_s * 2)
        log.warning("job_failed", job=self.name, error=self.error)

    def _listen(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            said = json.loads(progress.json)
            batch = int(said["batchId"])
            if batch <= self._seen_batch:
                continue
            self._seen_batch = batch
            self._take_in(said)

    def _take_in(self, progress: Mapping[str, Json]) -> None:
        sources = progress.get("sources")
        for source in sources if isinstance(sources, list) else []:
            offsets = source.get("endOffset") if isinstance(source, dict) else None
            for topic, partitions in (offsets or {}).items() if isinstance(offsets, dict) else ():
                if isinstance(partitions, dict):
                    read = self.read.setdefault(topic, {})
                    read |= {int(p): int(str(o)) for p, o in partitions.items()}
        self._known = True
        self.error = None
        self._pause_s = FIRST_PAUSE_S
        observed = progress.get("observedMetrics")
        for counts in observed.values() if isinstance(observed, dict) else ():
            self._count(counts)

    def _count(self, counts: Json) -> None:
        for name, number in counts.items() if isinstance(counts, dict) else ():
            if name == "newest" and isinstance(number, int):
                self.counts[name] = max(self.counts.get(name, number), number)
            elif isinstance(number, int):
                self.counts[name] = self.counts.get(name, 0) + number

    def _read_files(self, files: FileSource) -> None:
        self._files_at = time.monotonic()
        try:
            for file in files.unread():
                self._count(dict(files.read(file)))
            self._files_done = True
            self.error = None
        except (PySparkException, OSError) as error:
            self.error = str(error)[:ERROR_LENGTH]

    def behind(self) -> int | None:
        """Give how many records of its topics it has not read; None while that is not known."""
        if self.files is not None:
            return 0 if self._files_done else None
        if not self._known:
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

    def report(self) -> Report:
        """Say how it stands."""
        behind = self.behind()
        now = time.monotonic()
        if behind:
            self._behind_since = self._behind_since or now
        else:
            self._behind_since = None
        running = self.query is not None or self.files is not None
        phase = "failed" if self.error and not running else "starting"
        if running and behind is not None:
            phase = "running" if behind else "caught_up"
        return Report(
            asset_id=self.assignment.asset.asset_id,
            epoch=self.assignment.epoch,
            generation=self.assignment.generation,
            phase=phase,
            lag_ms=round((now - self._behind_since) * 1000) if self._behind_since else 0,
            progress={
                "offsets": {
                    topic: {str(p): o for p, o in read.items()} for topic, read in self.read.items()
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

    def stop(self) -> None:
        """Stop the query in a thread of its own; what it wrote stays."""
        if self.query is not None:
            threading.Thread(target=self.query.stop, name=f"stop-{self.name}", daemon=True).start()
