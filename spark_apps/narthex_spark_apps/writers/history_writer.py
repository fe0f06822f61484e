"""The history writer, a standing task: tails dataset logs into append-only tables.

The table's own transaction contains the read offset of each partition: the table refuses a zombie
with an older version, and a replay of a batch adds no second row.

A write is a file and a commit, tens of milliseconds of CPU time even for a few rows. So feeds take
turns, and all writes together have a limited share of the time: a few feeds write every two
seconds, a hundred feeds every twenty.
"""

import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping

import attrs
import pyarrow as pa
import structlog

from narthex._base import Json
from narthex._ir import TOMBSTONE_TIME, AssetSpec, Cell, FeedSpec, HistorySpec, LogSpec
from narthex._runtime.ingest import Lateness, render_late_row
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import FeedReader
from narthex_spark_apps.supervision.runner import Ended, JobLoop, Progress, attempt
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_spark_apps.writers.compactions import Compactions
from narthex_spark_apps.writers.feed_tails import FeedTails
from narthex_spark_apps.writers.turns import Turns
from narthex_stores import (
    HistoryTable,
    Record,
    StoreError,
    history_path,
    next_offsets,
    platform_broker,
    record_table,
    storage_options,
    to_rows,
)

log = structlog.get_logger()

MAX_RECORDS = 50_000
POLL_S = 0.05
WRITE_EVERY_S = 2.0
"""Minimum time between two writes of a feed, unless it has `MAX_RECORDS`."""
WRITING_SHARE = 1 / 8
"""The share of a CPU that all writes may take, except those of `MAX_RECORDS`."""


@attrs.define(eq=False)
class HistoryFeed:
    """One log tailed into one table; records wait here until there are enough for a file.

    Attributes:
        open_table: Opens the table once more, for another thread.
        stored: The next offset of each partition, as the table contains it.
        wrote_at: When it was last written, by the monotonic clock.
        waited_s: How long the oldest record of the last write had waited.
        arrivals: When the log received the last row of each source partition, milliseconds.
        small_files: How many files were written since the last compaction began, or more.
    """

    assignment: WorkAssignment
    topic: str
    open_table: Callable[[], HistoryTable]
    table: HistoryTable
    stored: dict[int, int]
    lateness: Lateness | None = None
    newest_us: int | None = None
    arrivals: dict[str, int] = attrs.field(factory=dict)
    waiting: list[Record] = attrs.field(factory=list)
    written: int = 0
    wrote_at: float = float("-inf")
    waited_s: float = 0.0
    small_files: int = 0
    _waiting_since: float = 0.0

    @classmethod
    def open(cls, assignment: WorkAssignment, settings: Settings) -> "HistoryFeed":
        """Open the table and read the offsets that it contains."""
        asset = assignment.asset
        need = asset.need("history")
        if not isinstance(need.spec, HistorySpec):
            raise TypeError(f"asset {need.asset_id} is not a history")
        open_table = functools.partial(
            HistoryTable,
            history_path(settings.history_dir, need.physical_name),
            need.spec,
            storage=storage_options(os.environ),
        )
        table = open_table()
        return cls(
            assignment=assignment,
            topic=asset.need("log").physical_name,
            open_table=open_table,
            table=table,
            stored=table.offsets(),
            lateness=_lateness(asset.spec),
            newest_us=table.newest_event_time(),
            small_files=len(table.files()),
        )

    def take(self, record: Record) -> None:
        """Queue a record for the next write."""
        if not self.waiting:
            self._waiting_since = time.monotonic()
        self.waiting.append(record)

    def is_due(self, now: float) -> bool:
        """Whether records wait and the last write was long enough ago."""
        return bool(self.waiting) and now - self.wrote_at >= WRITE_EVERY_S

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition, as the table contains it."""
        return dict(self.stored)

    def observe(self, progress: Progress) -> None:
        """Report what the table contains; its offsets may be as old as two turns of the feed."""
        progress.read = {self.topic: self.offsets()}
        progress.stale_s = 2 * (WRITE_EVERY_S + self.waited_s)
        progress.details = {
            "written": self.written,
            "newest_event_time": self.newest_us,
            **late_rows(self),
            **source_partitions(self),
        }

    def stop(self) -> None:
        """Write the records that wait."""
        self.write()

    @property
    def is_over(self) -> bool:
        """Whether the feed has ended, once it was stopped: at once."""
        return True

    def write(self) -> None:
        """Append the waiting records, in one transaction with their offsets.

        After an error none of them waits: the next run of the feed reads them again.
        """
        if not self.waiting:
            return
        records, self.waiting = self.waiting, []
        rows = record_table(self.table.log, records)
        following = next_offsets(records)
        self.table.append_table(rows, next_offsets=following)
        self._observe_rows(rows, arrived_ms=max(record.timestamp_ms for record in records))
        self.stored |= following
        self.written += len(records)
        self.wrote_at = time.monotonic()
        self.waited_s = self.wrote_at - self._waiting_since
        self.small_files += 1

    def _observe_rows(self, rows: pa.Table, *, arrived_ms: int) -> None:
        """Note the newest event time, and count the late rows."""
        event_times: list[int] = rows.column("event_time").to_numpy().tolist()
        known = () if self.newest_us is None else (self.newest_us,)
        happened = (time for time in event_times if time != TOMBSTONE_TIME)
        self.newest_us = max((*known, *happened), default=None)
        if self.lateness is not None:
            positions: list[bytes] = rows.column(self.lateness.position_column).to_numpy().tolist()
            key_at = functools.partial(_key_at, self.table.log, rows)
            for place in self.lateness.observe(positions, event_times, key_at):
                self.arrivals[place] = max(arrived_ms, self.arrivals.get(place, arrived_ms))


class HistoryWriter:
    """The feeds of this task and the consumer that they share."""

    turn_s = 0.0
    expected = (NarthexError, StoreError, OSError)

    def __init__(self, settings: Settings) -> None:
        """Connect; no feed runs yet."""
        self._settings = settings
        self._tails: FeedTails[HistoryFeed] = FeedTails(FeedReader(platform_broker(settings)))
        self._turns = Turns(WRITING_SHARE)
        self._compactions = Compactions()

    def adopt(self, _desired: Mapping[ShardId, WorkAssignment], /) -> None:
        """Do nothing: a feed opens all that it needs when it starts."""

    def start(self, assignment: WorkAssignment, progress: Progress) -> HistoryFeed:
        """Open the table of a feed."""
        feed = HistoryFeed.open(assignment, self._settings)
        progress.topics, progress.ends = (feed.topic,), self._tails.reader
        progress.known = progress.is_running = True
        return feed

    def advance(self, runs: Mapping[ShardId, HistoryFeed]) -> Iterator[Ended]:
        """Take the records that have arrived; write one feed, if one is due."""
        yield from self._tails.follow(runs)
        for record in self._tails.reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S):
            for feed in self._tails.by_topic.get(record.topic, {}).values():
                feed.take(record)
        for shard_id, feed in runs.items():
            if len(feed.waiting) >= MAX_RECORDS:
                yield from attempt(shard_id, feed.write)
        yield from self._tails.unreadable()
        now = time.monotonic()
        due = self._turns.next(
            {shard_id: feed.wrote_at for shard_id, feed in runs.items() if feed.is_due(now)}, now
        )
        if due is not None:
            before_s = time.process_time()
            yield from attempt(due, runs[due].write)
            self._turns.spent(time.process_time() - before_s, time.monotonic())
        self._compactions.begin_next(runs)


def _lateness(spec: AssetSpec) -> Lateness | None:
    if not isinstance(spec, FeedSpec) or spec.disorder_us is None:
        return None
    return Lateness(spec.disorder_us, spec.log.shape, dict(spec.disorders))


def _key_at(log_spec: LogSpec, rows: pa.Table, place: int) -> tuple[Cell, ...]:
    return to_rows(log_spec, rows.slice(place, 1))[0].fact.key


def late_rows(feed: HistoryFeed) -> dict[str, Json]:
    """Return the number of late rows since this process started, and the newest of them."""
    if feed.lateness is None:
        return {}
    keys = feed.table.log.keys
    return {
        "late": feed.lateness.count,
        "late_rows": [render_late_row(row, keys) for row in feed.lateness.newest],
    }


def source_partitions(feed: HistoryFeed) -> dict[str, Json]:
    """Return what the watermark of a dataset with sources is computed from.

    It covers the rows since this process started; the ledger keeps what earlier ones reported.
    """
    if feed.lateness is None:
        return {}
    return {"event_times": {**feed.lateness.event_times()}, "arrivals": {**feed.arrivals}}


def make_loop(settings: Settings, send: Send) -> JobLoop[HistoryFeed]:
    """Return the loop of the standing task."""
    gc_tuning.tune_gc()
    return JobLoop(HistoryWriter(settings), send)
