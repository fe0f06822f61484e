"""The index writer: tails dataset logs into indexes, atomically with the offsets they contain.

One process serves many feeds. A batch of a feed is decoded, applied in one transaction with its
offsets and the slot's epoch, and only then counts as read. Messages for joins (the spans of the
past that changed) are flushed to the `invalidations` topic *before* the batch commits: a crash
between the two repeats the message, which is harmless, and never loses it.
"""

import base64
import json
import sys
import time
from collections.abc import Sequence

import attrs
import structlog

from narthex._formats.avro import FactCodec, key_encoder
from narthex._formats.avro import encode as fact_codec
from narthex._ir import IndexSpec, LogShape, ResolvedAsset
from narthex.settings import Settings, load_settings
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import FeedReader, poll_together
from narthex_spark_apps.storage.snapshots import ensure_index
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
    ColumnReader,
    IndexFenced,
    Invalidation,
    LmdbIndex,
    LogProducer,
    Record,
    column_reader,
)

log = structlog.get_logger()

POLL_S = 0.05
REPORT_EVERY_S = 0.5
SYNC_EVERY_S = 1.0


@attrs.define
class IndexFeed:
    """One log tailed into one index."""

    assignment: WorkAssignment
    topic: str
    index: LmdbIndex
    codec: FactCodec
    invalidation_topic: str | None
    columns: ColumnReader | None = None
    applied: int = 0
    duplicates: int = 0
    fenced: bool = False

    @classmethod
    def open(cls, assignment: WorkAssignment, settings: Settings) -> "IndexFeed":
        """Open the index and raise its epoch: from now on, the index refuses an older writer."""
        asset = assignment.asset
        need = asset.need("index")
        if not isinstance(need.spec, IndexSpec):
            raise TypeError(f"asset {need.asset_id} is no index")
        ensure_index(settings, need)
        index = LmdbIndex(settings.index_dir / need.physical_name, need.spec)
        feed = cls(
            assignment=assignment,
            topic=asset.need("log").physical_name,
            index=index,
            codec=fact_codec(need.spec.log),
            invalidation_topic=_invalidation_topic(asset),
            columns=column_reader(need.spec.log) if index.takes_columns else None,
        )
        try:
            index.raise_epoch(assignment.epoch)
        except IndexFenced as error:
            feed.refused(error)
        return feed

    def refused(self, error: IndexFenced) -> None:
        """Stop writing to the index: another process writes it from now on."""
        self.fenced = True
        log.warning("write_refused", index=self.index.path.name, error=str(error))

    def apply(self, records: Sequence[Record], producer: LogProducer) -> None:
        """Apply records of this feed's topic in one transaction, with their offsets."""
        if self.fenced:
            return
        if self.columns is not None and self.invalidation_topic is None:
            self._apply_columns(self.columns, records)
            return
        spec = self.index.spec
        facts = self.codec.decode_many([record.value or b"" for record in records])
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            offsets[(record.topic, record.partition)] = record.offset + 1
        if self.invalidation_topic is not None and spec.log.shape is LogShape.KEYED:
            spans = self.index.preview_invalidations(facts)
            self._announce(spans, self.index.offsets() | offsets, producer)
        try:
            applied = self.index.apply(facts, offsets=offsets, epoch=self.assignment.epoch)
        except IndexFenced as error:
            self.refused(error)
            return
        self.applied += applied.fresh
        self.duplicates += applied.duplicates

    def _apply_columns(self, reader: ColumnReader, records: Sequence[Record]) -> None:
        facts = reader.read([record.value or b"" for record in records])
        offsets = {(r.topic, r.partition): r.offset + 1 for r in records}
        try:
            applied = self.index.apply_columns(facts, offsets=offsets, epoch=self.assignment.epoch)
        except IndexFenced as error:
            self.refused(error)
            return
        self.applied += applied.fresh
        self.duplicates += applied.duplicates

    def _announce(
        self,
        spans: Sequence[Invalidation],
        offsets: dict[tuple[str, int], int],
        producer: LogProducer,
    ) -> None:
        if self.invalidation_topic is None or not spans:
            return
        encode_key = key_encoder(self.index.spec.log.keys)
        including: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in offsets.items():
            including.setdefault(topic, {})[str(partition)] = offset
        for span in spans:
            key = encode_key(span.key)
            message = {
                "key": base64.b64encode(key).decode(),
                "cells": list(span.key),
                "from": span.from_us,
                "to": span.to_us,
                "offsets": including,
            }
            producer.append(self.invalidation_topic, key=key, value=json.dumps(message).encode())
        producer.flush()

    def close(self) -> None:
        """Close the index; committed data stays."""
        self.index.close()


def _invalidation_topic(asset: ResolvedAsset) -> str | None:
    for need in asset.needs:
        if need.role == "touched":
            return need.physical_name
    return None


class IndexWriter:
    """All feeds of this process and the consumer that they share."""

    def __init__(self, settings: Settings) -> None:
        """Connect; nothing is assigned yet."""
        self._settings = settings
        self._producer = LogProducer(settings.kafka)
        self._reader = FeedReader(settings.kafka)
        self._feeds: dict[int, IndexFeed] = {}
        self._by_topic: dict[str, list[IndexFeed]] = {}
        self._desired = DesiredAssignments(assignments=())

    def assign(self, desired: DesiredAssignments) -> None:
        """Adopt the desired set of feeds; a feed with a new epoch is opened again."""
        self._desired = desired
        wanted = {a.asset.asset_id: a for a in desired.assignments}
        for asset_id, feed in list(self._feeds.items()):
            found = wanted.get(asset_id)
            if found is None or found.epoch != feed.assignment.epoch:
                self._feeds.pop(asset_id).close()
        opened: set[str] = set()
        for asset_id, assignment in wanted.items():
            if asset_id not in self._feeds:
                feed = IndexFeed.open(assignment, self._settings)
                self._feeds[asset_id] = feed
                opened.add(feed.topic)
        self._by_topic = {}
        for feed in self._feeds.values():
            self._by_topic.setdefault(feed.topic, []).append(feed)
        self._reader.assign({topic: self._start(feeds) for topic, feeds in self._by_topic.items()})
        for topic in opened:
            self._reader.restart(topic)

    @staticmethod
    def _start(feeds: Sequence[IndexFeed]) -> dict[int, int]:
        """Return the offsets to read a topic from: the lowest that its feeds have committed."""
        starts: list[dict[int, int]] = [
            {p: o for (topic, p), o in feed.index.offsets().items() if topic == feed.topic}
            for feed in feeds
        ]
        shared = set.intersection(*(set(start) for start in starts))
        return {p: min(start[p] for start in starts) for p in shared}

    def step(self) -> int:
        """Read and apply the records that have arrived; return their number."""
        records = poll_together(self._reader, timeout_s=POLL_S)
        by_topic: dict[str, list[Record]] = {}
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        # Topics with few records first, so that they do not wait for large ones.
        for topic, found in sorted(by_topic.items(), key=lambda item: len(item[1])):
            for feed in self._by_topic.get(topic, ()):
                feed.apply(found, self._producer)
        return len(records)

    def report(self) -> None:
        """Report the feeds and their states to the supervisor."""
        send(RunningJobs(turn=self._desired.turn, assets=tuple(sorted(self._feeds))))
        ends = self._reader.ends()
        for feed in self._feeds.values():
            offsets = {p: o for (t, p), o in feed.index.offsets().items() if t == feed.topic}
            behind = sum(
                max(0, end - offsets.get(p, 0)) for p, end in ends.get(feed.topic, {}).items()
            )
            known = feed.topic in ends
            caught_up = known and behind == 0
            wrong = self._reader.wrong(feed.topic)
            has_failed = feed.fenced or wrong is not None
            phase = "failed" if has_failed else "caught_up" if caught_up else "running"
            send(
                Report(
                    asset_id=feed.assignment.asset.asset_id,
                    epoch=feed.assignment.epoch,
                    generation=feed.assignment.generation,
                    phase=phase,
                    lag_ms=self._reader.waiting_ms(feed.topic, behind),
                    progress={
                        "offsets": {feed.topic: {str(p): o for p, o in offsets.items()}},
                        "behind": behind if known else None,
                        "applied": feed.applied,
                        "duplicates": feed.duplicates,
                        "error": wrong,
                    },
                )
            )

    def look(self) -> None:
        """Reopen lost or restored indexes, and continue from the offsets that they contain."""
        replaced = [asset_id for asset_id, f in self._feeds.items() if f.index.is_replaced()]
        for asset_id in replaced:
            feed = self._feeds.pop(asset_id)
            log.warning("index_replaced", index=feed.index.path.name)
            feed.close()
        if replaced:
            self.assign(self._desired)

    def sync(self) -> None:
        """Flush committed data to disk, so that it survives a power loss."""
        for feed in self._feeds.values():
            feed.index.sync()


def main() -> None:
    """Run until the supervisor is gone."""
    settings = load_settings()
    inbox = Inbox(sys.stdin, gone=end_process_group)
    writer = IndexWriter(settings)
    gc_tuning.tune_gc()
    reported = synced = time.monotonic()
    while True:
        desired = inbox.newest(wait_s=0)
        if desired is not None:
            writer.assign(desired)
        writer.step()
        now = time.monotonic()
        if now - reported >= REPORT_EVERY_S:
            writer.look()
            writer.report()
            reported = now
        if now - synced >= SYNC_EVERY_S:
            writer.sync()
            synced = now


if __name__ == "__main__":
    main()
