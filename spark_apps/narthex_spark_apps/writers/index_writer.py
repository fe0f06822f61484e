"""The index writer: tails dataset logs into indexes, atomically with the offsets they contain.

One standing task serves many feeds. A batch of a feed is decoded, applied in one transaction with
its offsets and the slot's epoch, and only then counts as read. Messages for joins (the spans of the
past that changed) are flushed to the `invalidations` topic *before* the batch commits: a crash
between the two repeats the message, which is harmless, and never loses it.
"""

import base64
import functools
import json
import time
from collections.abc import Iterator, Mapping, Sequence

import attrs
import structlog

from narthex._formats import key_encoder
from narthex._formats.avro import FactCodec, fact_codec
from narthex._ir import IndexSpec, LogShape, ResolvedAsset
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_spark_apps.platform import gc_tuning
from narthex_spark_apps.platform.log_consumer import FeedReader, poll_together
from narthex_spark_apps.storage.snapshots import ensure_index
from narthex_spark_apps.supervision.runner import Ended, JobLoop, Progress, attempt
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner.progress import TopicOffsets
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_spark_apps.writers.feed_tails import FeedTails
from narthex_spark_apps.writers.turns import Turns
from narthex_stores import (
    ColumnReader,
    IndexHandle,
    Invalidation,
    LogProducer,
    Record,
    StoreError,
    column_reader,
    index_store,
    platform_broker,
)

log = structlog.get_logger()

POLL_S = 0.05
LOOK_EVERY_S = 0.5
FLUSH_AFTER_S = 1.0
"""Minimum time between a batch and the flush that makes it durable against a loss of power."""
FLUSHING_SHARE = 1 / 8
"""The share of the time that the flushes of all indexes may take.

A few indexes are flushed a second after a batch, five hundred busy ones every few seconds. A loss
of power undoes batches with their offsets, so a later flush only means more rows to read again.
"""
EXPIRED_AT_ONCE = 10_000
"""How many entries of an index one flush may delete, however few facts were applied."""


class PartitionsChangedError(StoreError):
    """Somebody added partitions to a log, so that its keys are no longer where its shards are."""

    def __init__(self, topic: str, partitions: int, shards: int) -> None:
        super().__init__(
            f"log `{topic}` has {partitions} partitions and its index {shards} shards; raise the "
            "dataset's version, which creates both anew"
        )


@attrs.define(eq=False)
class IndexFeed:
    """One log tailed into one index, or one partition of it into one shard.

    Attributes:
        unflushed_since: When the first batch since the last flush was applied, by the monotonic
            clock; None without one.
    """

    assignment: WorkAssignment
    topic: str
    index: IndexHandle
    codec: FactCodec
    invalidation_topic: str | None
    columns: ColumnReader | None = None
    applied: int = 0
    duplicates: int = 0
    unflushed_since: float | None = None
    _expired_at: int = attrs.field(default=0, init=False)

    @classmethod
    def open(cls, assignment: WorkAssignment, settings: Settings) -> "IndexFeed":
        """Open the index and raise its epoch: from now on, the index refuses an older writer.

        Raises:
            IndexFenced: A writer with a later epoch has opened it.
        """
        asset = assignment.asset
        need = asset.need("index")
        if not isinstance(need.spec, IndexSpec):
            raise TypeError(f"asset {need.asset_id} is not an index")
        shard = assignment.shard if assignment.shards > 1 else None
        ensure_index(settings, need, shard)
        index = index_store(settings).open(need.physical_name, need.spec, shard=shard)
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
        except StoreError:
            index.close()
            raise
        return feed

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition, as the index contains it."""
        return {
            partition: at
            for (topic, partition), at in self.index.offsets().items()
            if topic == self.topic and self.assignment.reads(partition)
        }

    def apply(self, records: Sequence[Record], producer: LogProducer) -> None:
        """Apply records of this feed's topic in one transaction, with their offsets.

        Raises:
            IndexFenced: Another process writes the index from now on; nothing was applied.
        """
        if self.unflushed_since is None:
            self.unflushed_since = time.monotonic()
        if self.columns is not None and self.invalidation_topic is None:
            self._apply_columns(self.columns, records)
        else:
            self._apply_facts(records, producer)

    def _apply_facts(self, records: Sequence[Record], producer: LogProducer) -> None:
        spec = self.index.spec
        facts = self.codec.decode_many([record.value or b"" for record in records])
        offsets: dict[tuple[str, int], int] = {}
        for record in records:
            offsets[(record.topic, record.partition)] = record.offset + 1
        if self.invalidation_topic is not None and spec.log.shape is LogShape.KEYED:
            spans = self.index.preview_invalidations(facts)
            self._announce(spans, self.index.offsets() | offsets, producer)
        applied = self.index.apply(facts, offsets=offsets, epoch=self.assignment.epoch)
        self.applied += applied.fresh
        self.duplicates += applied.duplicates

    def _apply_columns(self, reader: ColumnReader, records: Sequence[Record]) -> None:
        facts = reader.read([record.value or b"" for record in records])
        offsets = {(r.topic, r.partition): r.offset + 1 for r in records}
        applied = self.index.apply_columns(facts, offsets=offsets, epoch=self.assignment.epoch)
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
            producer.post(self.invalidation_topic, key=key, value=json.dumps(message).encode())
        producer.flush()

    def flush(self) -> None:
        """Delete rows that have expired; make all batches durable against a loss of power.

        As many entries may be deleted as the facts since the last flush have made, or a fixed
        number if that is more. So expiry keeps up with a feed that keeps up with its log.

        Raises:
            IndexFenced: Another process writes the index from now on.
        """
        entries = 2 + len(self.index.spec.tile_lengths_us)
        most = max(EXPIRED_AT_ONCE, entries * (self.applied - self._expired_at))
        self.index.expire(now_us=time.time_ns() // 1000, most=most, epoch=self.assignment.epoch)
        self._expired_at = self.applied
        self.index.sync()
        self.unflushed_since = None

    def observe(self, progress: Progress) -> None:
        """Report the offsets that the index contains."""
        progress.read = {self.topic: self.offsets()}
        progress.details = {"applied": self.applied, "duplicates": self.duplicates}

    def stop(self) -> None:
        """Close the index; committed data stays."""
        self.index.close()

    @property
    def is_over(self) -> bool:
        """Whether the feed has ended, once it was stopped: at once."""
        return True


def _invalidation_topic(asset: ResolvedAsset) -> str | None:
    for need in asset.needs:
        if need.role == "touched":
            return need.physical_name
    return None


class IndexWriter:
    """The feeds of this task and the consumer that they share."""

    turn_s = 0.0
    expected = (NarthexError, StoreError, OSError)

    def __init__(self, settings: Settings) -> None:
        """Connect; no feed runs yet."""
        self._settings = settings
        self._producer = LogProducer(platform_broker(settings))
        self._tails: FeedTails[IndexFeed] = FeedTails(FeedReader(platform_broker(settings)))
        self._flushes = Turns(FLUSHING_SHARE)
        self._looked_at = float("-inf")

    def adopt(self, _desired: Mapping[ShardId, WorkAssignment], /) -> None:
        """Do nothing: a feed opens all that it needs when it starts."""

    def start(self, assignment: WorkAssignment, progress: Progress) -> IndexFeed:
        """Open the index of a feed."""
        feed = IndexFeed.open(assignment, self._settings)
        progress.topics, progress.ends = (feed.topic,), self._tails.reader
        progress.known = progress.is_running = True
        return feed

    def advance(self, runs: Mapping[ShardId, IndexFeed]) -> Iterator[Ended]:
        """Apply the records that have arrived; look after the indexes."""
        yield from self._tails.follow(runs)
        by_topic: dict[str, list[Record]] = {}
        for record in poll_together(self._tails.reader, timeout_s=POLL_S):
            by_topic.setdefault(record.topic, []).append(record)
        # Topics with few records first, so that they do not wait for large ones.
        for topic, records in sorted(by_topic.items(), key=lambda item: len(item[1])):
            for feed, part in self._tails.parts(topic, records):
                apply = functools.partial(feed.apply, part, self._producer)
                yield from attempt(feed.assignment.shard_id, apply)
        yield from self._tails.unreadable()
        now = time.monotonic()
        due = self._flushes.next(flushable(runs, now), now)
        if due is not None:
            yield from attempt(due, runs[due].flush)
            self._flushes.spent(time.monotonic() - now, time.monotonic())
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            yield from _replaced(runs)
            yield from misdivided(runs, self._tails.reader.known())


def flushable(runs: Mapping[ShardId, IndexFeed], now: float) -> dict[ShardId, float]:
    """Return since when each feed waits whose oldest unflushed batch is old enough."""
    return {
        shard_id: feed.unflushed_since
        for shard_id, feed in runs.items()
        if feed.unflushed_since is not None and now - feed.unflushed_since >= FLUSH_AFTER_S
    }


def _replaced(runs: Mapping[ShardId, IndexFeed]) -> Iterator[Ended]:
    """Return the feeds whose indexes were lost or restored: they go on from what those contain."""
    for shard_id, feed in runs.items():
        if feed.index.is_replaced():
            log.warning("index_replaced", index=feed.index.name, shard=shard_id.shard)
            yield Ended(shard_id)


def misdivided(runs: Mapping[ShardId, IndexFeed], ends: TopicOffsets) -> Iterator[Ended]:
    """Return the feeds whose logs got partitions that their shards do not divide evenly.

    A key of such a log may have rows in a shard in which readers do not look for it.
    """
    for shard_id, feed in runs.items():
        partitions, shards = len(ends.get(feed.topic, ())), feed.assignment.shards
        if partitions % shards:
            yield Ended(shard_id, PartitionsChangedError(feed.topic, partitions, shards))


def make_loop(settings: Settings, send: Send) -> JobLoop[IndexFeed]:
    """Return the loop of the standing task."""
    gc_tuning.tune_gc()
    return JobLoop(IndexWriter(settings), send)
