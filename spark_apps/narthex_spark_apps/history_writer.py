"""The history writer: tails dataset logs into their append-only tables.

The table's own transaction carries how far each partition was read; a zombie with an older
version is refused by it, and a replay of a batch is no second row.
"""

import gc
import os
import sys
import time
from collections.abc import Iterable

import attrs

from narthex.assets import AssetSpec, FeedSpec, HistorySpec
from narthex.codec import encode
from narthex.facts import NEVER
from narthex.lateness import Lateness, render_late_row
from narthex.records import Json
from narthex.settings import Settings, load_settings
from narthex_spark_apps.children import (
    Assignment,
    Desired,
    Inbox,
    Report,
    Standing,
    end_process_group,
    send,
)
from narthex_spark_apps.feeds import FeedReader
from narthex_stores import HistoryTable, LogRow, Record, history_path, storage_options

MAX_RECORDS = 50_000
POLL_S = 0.05
REPORT_EVERY_S = 1.0
WRITE_EVERY_S = 2.0


@attrs.define
class HistoryFeed:
    """One log tailed into one table; records wait here until a write is worth a file."""

    assignment: Assignment
    topic: str
    table: HistoryTable
    offsets: dict[int, int]
    lateness: Lateness | None = None
    newest_us: int | None = None
    waiting: list[Record] = attrs.field(factory=list)
    written: int = 0

    @classmethod
    def open(cls, assignment: Assignment, settings: Settings) -> "HistoryFeed":
        """Open the table and see how far it was written."""
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
        )

    def write(self) -> None:
        """Append what waits, in one transaction with its offsets."""
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
        happened = (fact.event_time for fact in facts if fact.event_time != NEVER)
        self.newest_us = max((*known, *happened), default=None)
        for record in self.waiting:
            self.offsets[record.partition] = record.offset + 1
        self.written += len(self.waiting)
        self.waiting = []


class HistoryWriter:
    """All feeds of this process and the one consumer behind them."""

    def __init__(self, settings: Settings) -> None:
        """Connect; nothing is assigned yet."""
        self._settings = settings
        self._reader = FeedReader(settings.kafka)
        self._feeds: dict[int, HistoryFeed] = {}
        self._turn = 0

    def assign(self, desired: Desired) -> None:
        """Make the feeds what is desired."""
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
        """Take what has come."""
        by_topic = {feed.topic: feed for feed in self._feeds.values()}
        for record in self._reader.poll(max_records=MAX_RECORDS, timeout_s=POLL_S):
            feed = by_topic.get(record.topic)
            if feed is not None:
                feed.waiting.append(record)
                if len(feed.waiting) >= MAX_RECORDS:
                    feed.write()

    def write(self) -> None:
        """Append what waits in each feed."""
        for feed in self._feeds.values():
            feed.write()

    def report(self) -> None:
        """Tell the supervisor what runs, and how each feed stands."""
        send(Standing(turn=self._turn, assets=tuple(sorted(self._feeds))))
        ends = self._reader.ends()
        for feed in self._feeds.values():
            behind = _behind(feed, ends.get(feed.topic, {}).items())
            caught_up = feed.topic in ends and behind == 0
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
                        "watermark": feed.newest_us,
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
    """Give how many rows came late since this process began, and the newest of them."""
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
    # What was imported lives for ever: the collector need not look at it again and again.
    gc.freeze()
    reported = written = time.monotonic()
    while True:
        desired = inbox.newest(wait_s=0)
        if desired is not None:
            writer.assign(desired)
        writer.step()
        now = time.monotonic()
        if now - written >= WRITE_EVERY_S:
            writer.write()
            written = time.monotonic()
        if now - reported >= REPORT_EVERY_S:
            writer.report()
            reported = now


if __name__ == "__main__":
    main()
