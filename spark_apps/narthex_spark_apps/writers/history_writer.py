"""The history writer: tails dataset logs into append-only tables.

The table's own transaction contains the read offset of each partition: the table refuses a zombie
with an older version, and a replay of a batch adds no second row.

A write is a file and a commit, tens of milliseconds of CPU time even for a few rows. So feeds take
turns, and all writes together have a limited share of the time: a few feeds write every two
seconds, a hundred feeds every twenty.
"""

import os
import sys
import time
from collections.abc import Iterable, Mapping

import attrs
import structlog

from narthex._base import Json
from narthex._formats.avro import encode
from narthex._ir import TOMBSTONE_TIME, AssetSpec, FeedSpec, HistorySpec
from narthex._runtime.ingest import Lateness, render_late_row
from narthex.settings import Settings, load_settings
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import FeedReader
from narthex_spark_apps.supervision.child_messages import (
    DesiredAssignments,
    Inbox,
    Report,
    RunningJobs,
    WorkAssignment,
    end_process_group,
    send,
)
from narthex_stores import (
    HistoryTable,
    LogRow,
    Record,
    TransientError,
    history_path,
    storage_options,
)

log = structlog.get_logger()

MAX_RECORDS = 50_000
POLL_S = 0.05
REPORT_EVERY_S = 1.0
WRITE_EVERY_S = 2.0
"""Minimum time between two writes of a feed, unless it has `MAX_RECORDS`."""
COMPACT_EACH = 500
"""Small files after which a feed compacts them: readers and this process hold a list of them."""
WRITING_SHARE = 1 / 8
"""The share of a CPU that all writes may take, except those of `MAX_RECORDS`."""


@attrs.define
class HistoryFeed:
    """One log tailed into one table; records wait here until there are enough for a file.

    Attributes:
        wrote_at: When it was last written, by the monotonic clock.
        waited_s: How long the oldest record of the last write had waited.
        level_at: When the table last contained the whole log.
        small_files: How many files were written since the last compaction, or more.
    """

    assignment: WorkAssignment
    topic: str
    table: HistoryTable
    offsets: dict[int, int]
    lateness: Lateness | None = None
    newest_us: int | None = None
    waiting: list[Record] = attrs.field(factory=list)
    written: int = 0
    wrote_at: float = float("-inf")
    waited_s: float = 0.0
    level_at: float = float("-inf")
    small_files: int = 0
    _waiting_since: float = 0.0

    @classmethod
    def open(cls, assignment: WorkAssignment, settings: Settings) -> "HistoryFeed":
        """Open the table and read the offsets that it contains."""
        asset = assignment.asset
        need = asset.need("history")
        if not isinstance(need.spec, HistorySpec):
            raise TypeError(f"asset {need.asset_id} is no history")
        table = HistoryTable(
            history_path(settings.history_dir, need.physical_name),
            need.spec,
            storage=storage_options(os.environ),
        )
        return cls(
            assignment=assignment,
            topic=asset.need("log").physical_name,
            table=table,
            offsets=table.offsets(),
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

    def is_caught_up(self, now: float, behind: int) -> bool:
        """Whether everything is written that the log held before the last turns of this feed."""
        return behind == 0 or now - self.level_at <= 2 * (WRITE_EVERY_S + self.waited_s)

    def write(self) -> None:
        """Append the waiting records, in one transaction with their offsets."""
        if not self.waiting:
            return
        facts = encode(self.table.log).decode_many([r.value or b"" for r in self.waiting])
        self.table.append_rows(
            [
                LogRow(record.partition, record.offset, fact)
                for record, fact in zip(self.waiting, facts, strict=True)
            ]
        )
        if self.lateness is not None:
            self.lateness.observe(facts)
        known = () if self.newest_us is None else (self.newest_us,)
        happened = (fact.event_time for fact in facts if fact.event_time != TOMBSTONE_TIME)
        self.newest_us = max((*known, *happened), default=None)
        for record in self.waiting:
            self.offsets[record.partition] = record.offset + 1
        self.written += len(self.waiting)
        self.waiting = []
        self.wrote_at = time.monotonic()
        self.waited_s = self.wrote_at - self._waiting_since
        self.small_files += 1
        if self.small_files >= COMPACT_EACH:
            self._compact()

    def _compact(self) -> None:
        self.small_files = 0
        try:
            replaced = self.table.compact()
        except TransientError as error:
            # Nothing depends on the compaction; the next files make it due again.
            log.warning("history_not_compacted", topic=self.topic, error=str(error))
        else:
            log.info("history_compacted", topic=self.topic, files=replaced)


@attrs.define
class Turns:
    """Decides which feed writes next, one at a time."""

    _not_before: float = float("-inf")

    def next(self, feeds: Iterable[HistoryFeed], now: float) -> HistoryFeed | None:
        """Return the feed that has waited longest, if one is due and the share of CPU allows it."""
        if now < self._not_before:
            return None
        due = (feed for feed in feeds if feed.is_due(now))
        return min(due, key=lambda feed: feed.wrote_at, default=None)

    def spent(self, cpu_s: float, now: float) -> None:
        """Account for the cost of a write."""
        self._not_before = now + cpu_s * (1 / WRITING_SHARE - 1)


class HistoryWriter:
    """All feeds of this process and the consumer that they share."""

    def __init__(self, settings: Settings) -> None:
        """Connect; nothing is assigned yet."""
        self._settings = settings
        self._reader = FeedReader(settings.kafka)
        self._feeds: dict[int, HistoryFeed] = {}
        self._turn = 0
        self._turns = Turns()

    def assign(self, desired: DesiredAssignments) -> None:
        """Adopt the desired set of feeds."""
        self._turn = desired.turn
        wanted = {a.asset.asset_id: a for a in desired.assignments}
        for asset_id, feed in list(self._feeds.items()):
            found = wanted.get(asset_id)
            if found is None or found.epoch != feed.assignment.epoch:
                feed.write()
                del self._feeds[asset_id]
        opened: set[str] = set()
        for asset_id, assignment in wanted.items():
            if asset_id not in self._feeds:
                feed = HistoryFeed.open(assignment, self._settings)
                self._feeds[asset_id] = feed
                opened.add(feed.topic)
        self._reader.assign({feed.topic: feed.offsets for feed in self._feeds.values()})
        for topic in opened:
            self._reader.restart(topic)

    def step(self) -> None:
        """Take the records that have arrived."""
        by_topic = {feed.topic: feed for feed in self._feeds.values()}
        for record in self._reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S):
            feed = by_topic.get(record.topic)
            if feed is not None:
                feed.take(record)
                if len(feed.waiting) >= MAX_RECORDS:
                    feed.write()

    def write(self) -> None:
        """Append the waiting records of one feed, if one is due."""
        feed = self._turns.next(self._feeds.values(), time.monotonic())
        if feed is None:
            return
        before_s = time.process_time()
        feed.write()
        self._turns.spent(time.process_time() - before_s, time.monotonic())
        self._look(feed, self._reader.ends())

    def _look(self, feed: HistoryFeed, ends: Mapping[str, Mapping[int, int]]) -> int | None:
        """Return how many records of its log a feed has not written; None while unknown."""
        if feed.topic not in ends:
            return None
        behind = _behind(feed, ends[feed.topic].items())
        if behind == 0:
            feed.level_at = time.monotonic()
        return behind

    def report(self) -> None:
        """Report the feeds and their states to the supervisor."""
        send(RunningJobs(turn=self._turn, assets=tuple(sorted(self._feeds))))
        ends = self._reader.ends()
        for feed in self._feeds.values():
            seen = self._look(feed, ends)
            behind = seen or 0
            caught_up = seen is not None and feed.is_caught_up(time.monotonic(), seen)
            wrong = self._reader.wrong(feed.topic)
            send(
                Report(
                    asset_id=feed.assignment.asset.asset_id,
                    epoch=feed.assignment.epoch,
                    generation=feed.assignment.generation,
                    phase="failed" if wrong else "caught_up" if caught_up else "running",
                    lag_ms=self._reader.waiting_ms(feed.topic, behind),
                    progress={
                        "offsets": {feed.topic: {str(p): o for p, o in feed.offsets.items()}},
                        "behind": behind,
                        "written": feed.written,
                        "newest_event_time": feed.newest_us,
                        "error": wrong,
                        **lateness_told(feed),
                    },
                )
            )


def _behind(feed: HistoryFeed, ends: Iterable[tuple[int, int]]) -> int:
    return sum(max(0, end - feed.offsets.get(partition, 0)) for partition, end in ends)


def _lateness(spec: AssetSpec) -> Lateness | None:
    if not isinstance(spec, FeedSpec) or spec.disorder_us is None:
        return None
    return Lateness(spec.disorder_us, spec.log.shape)


def lateness_told(feed: HistoryFeed) -> dict[str, Json]:
    """Return the number of late rows since this process started, and the newest of them."""
    if feed.lateness is None:
        return {}
    keys = feed.table.log.keys
    return {
        "late": feed.lateness.count,
        "late_rows": [render_late_row(row, keys) for row in feed.lateness.newest],
    }


def main() -> None:
    """Run until the supervisor is gone."""
    settings = load_settings()
    inbox = Inbox(sys.stdin, gone=end_process_group)
    writer = HistoryWriter(settings)
    gc_tuning.tune_gc()
    reported = time.monotonic()
    while True:
        desired = inbox.newest(wait_s=0)
        if desired is not None:
            writer.assign(desired)
        writer.step()
        writer.write()
        now = time.monotonic()
        if now - reported >= REPORT_EVERY_S:
            writer.report()
            reported = now


if __name__ == "__main__":
    main()
