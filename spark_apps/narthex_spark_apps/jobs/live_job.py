"""One run of a job in a driver: a streaming query or a reader of files, and its progress."""

import datetime as dt
import json
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import attrs
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from narthex._base import SECOND_US, Json, to_micros
from narthex._ir import SourceJobSpec
from narthex.settings import Settings
from narthex_spark_apps.facts.broken_counts import BrokenByMinute
from narthex_spark_apps.jobs.start import checkpoint_of, count_details, file_source, start_query
from narthex_spark_apps.platform.kafka_io import REAL_TIME_S
from narthex_spark_apps.sources.files.source import FileSource
from narthex_spark_apps.supervision.runner import Progress
from narthex_spark_apps.supervision.runner_messages import WorkAssignment

FILES_EVERY_S = 5.0
"""How often to look for new files, if the author sets no `every`."""
OBSERVE_EVERY_S = 0.5

SparkOffsets: TypeAlias = dict[str, dict[int, int]]
"""The next offset to read, by topic and partition."""


class QueryFailedError(RuntimeError):
    """A streaming query ended by itself."""


@attrs.define(eq=False)
class LiveJob:
    """A job that Spark runs under one epoch; exactly one of `query` and `files` is set."""

    assignment: WorkAssignment
    progress: Progress
    session: SparkSession
    checkpoint: Path
    query: StreamingQuery | None = None
    files: FileSource | None = None
    interval_s: int = REAL_TIME_S
    _seen_batch: int = -1
    _files_at: float = float("-inf")
    _counts: dict[str, int] = attrs.field(factory=dict)
    _broken: BrokenByMinute = attrs.field(factory=BrokenByMinute)

    @classmethod
    def start(
        cls,
        assignment: WorkAssignment,
        progress: Progress,
        session: SparkSession,
        settings: Settings,
        *,
        interval_s: int = REAL_TIME_S,
    ) -> "LiveJob":
        """Start a run.

        Args:
            assignment: The job and its epoch.
            progress: The progress of the job.
            session: The session of the driver.
            settings: The settings of the installation.
            interval_s: The length of its intervals. A job that never ran gets the shortest ones,
                because readers wait for its first progress report.

        Raises:
            PySparkException: Spark cannot start the query.
            NotRunnableError: This version cannot run a part of the job.
        """
        asset = assignment.asset
        checkpoint = checkpoint_of(asset, settings) / "live"
        job = cls(assignment, progress, session, checkpoint)
        job.files = file_source(lambda: session, asset, settings)
        if job.files is None:
            discard_unfinished(checkpoint)
            committed = committed_offsets(checkpoint)
            job.interval_s = REAL_TIME_S if committed is None else interval_s
            job.query = start_query(
                session,
                asset,
                settings=settings,
                bounded=False,
                starts=assignment.start_offsets,
                epoch=assignment.epoch,
                interval_s=job.interval_s,
            )
            progress.stale_s = job.interval_s + OBSERVE_EVERY_S
            job._begin_at(committed)
        return job

    def advance(self) -> None:
        """Read the files that have arrived; notice that the query has ended.

        Raises:
            QueryFailedError: The query has ended.
            PySparkException: A file could not be read.
            NarthexError: A row of a file could not be handled.
        """
        if self.query is not None and not self.query.isActive:
            raise QueryFailedError(str(self.query.exception() or "the query ended"))
        if self.files is not None and time.monotonic() - self._files_at >= self.files_every_s:
            self._files_at = time.monotonic()
            for file in self.files.unread():
                for name, number in self.files.read(file).items():
                    self._counts[name] = self._counts.get(name, 0) + number
            self.progress.succeed(to_micros(dt.datetime.now(dt.UTC)))
            self.progress.known = self.progress.is_running = True

    def observe(self, progress: Progress) -> None:
        """Take in the newest progress report of Spark."""
        now_us = to_micros(dt.datetime.now(dt.UTC))
        progress.details = count_details(self._counts) | self._broken.report(
            self._counts, now_us=now_us
        )
        report = None if self.query is None else self.query.lastProgress
        if report is None or report.batchId == self._seen_batch:
            return
        self._seen_batch = report.batchId
        for offsets in reported_offsets(report):
            self._read_up_to(offsets)

    def is_short(self, interval_s: int) -> bool:
        """Whether the job has committed offsets and its intervals are much shorter than these."""
        if self._seen_batch < 0 or interval_s < 2 * self.interval_s:
            return False
        # Spark reports an interval before committing it: a query stopped in between starts anew.
        return committed_offsets(self.checkpoint) is not None

    def stop(self) -> None:
        """Stop the query in a separate thread; its output stays."""
        if self.query is not None:
            threading.Thread(
                target=self.query.stop, name=f"stop-{self.query.name}", daemon=True
            ).start()

    @property
    def files_every_s(self) -> float:
        """How often to look for new files, in seconds."""
        spec = self.assignment.asset.spec
        every_us = spec.source.every_us if isinstance(spec, SourceJobSpec) else None
        return FILES_EVERY_S if every_us is None else every_us / SECOND_US

    @property
    def is_over(self) -> bool:
        """Whether Spark has forgotten the query: its name stays taken a moment after it ends.

        Two runs of one job in one driver would share a name and a checkpoint.
        """
        query = self.query
        if query is None:
            return True
        return not query.isActive and all(q.id != query.id for q in self.session.streams.active)

    def _begin_at(self, committed: SparkOffsets | None) -> None:
        """Set the read position: the checkpoint's, or else the assigned start offsets."""
        offsets: SparkOffsets = {}
        for topic, partition, offset in self.assignment.start_offsets:
            offsets.setdefault(topic, {})[partition] = offset
        self._read_up_to(offsets if committed is None else committed)
        self.progress.known = self.progress.is_running = True

    def _read_up_to(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        read = self.progress.read
        self.progress.read = {
            topic: {**read.get(topic, {}), **offsets.get(topic, {})}
            for topic in (*read, *(topic for topic in offsets if topic not in read))
        }


def committed_offsets(checkpoint: Path) -> SparkOffsets | None:
    """Read the committed offsets of a query from its checkpoint; None if it has committed none."""
    numbers = _batches(checkpoint / "commits") & _batches(checkpoint / "offsets")
    if not numbers:
        return None
    offsets: SparkOffsets = {}
    # One line for the format, one of metadata, then one line for each source.
    for line in (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[2:]:
        for topic, partitions in _offsets(json.loads(line)).items():
            offsets.setdefault(topic, {}).update(partitions)
    return offsets


def discard_unfinished(checkpoint: Path) -> None:
    """Delete the checkpoint of a query that has not stored any offsets yet.

    A crash at the end of the first interval leaves an unfinished commit, with which Spark refuses
    to start. Rows that the interval has written are written again, which is harmless: they are
    facts.
    """
    if checkpoint.is_dir() and not _batches(checkpoint / "offsets"):
        shutil.rmtree(checkpoint)


def _batches(directory: Path) -> set[int]:
    return {int(file.name) for file in directory.glob("*") if file.name.isdigit()}


def reported_offsets(report: StreamingQueryProgress) -> list[SparkOffsets]:
    """Return the next offsets to read that a progress report of Spark names, by source."""
    sources = json.loads(report.json).get("sources")
    return [
        _offsets(source.get("endOffset") if isinstance(source, dict) else None)
        for source in (sources if isinstance(sources, list) else [])
    ]


def _offsets(reported: Json) -> SparkOffsets:
    """Read the offsets of a source in the form that Spark reports."""
    return {
        topic: {int(partition): int(str(offset)) for partition, offset in partitions.items()}
        for topic, partitions in (reported.items() if isinstance(reported, dict) else ())
        if isinstance(partitions, dict)
    }
