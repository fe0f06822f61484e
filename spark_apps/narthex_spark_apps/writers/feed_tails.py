"""One consumer for many feeds: each topic is read once, from where all its feeds can go on."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

import attrs

from narthex_spark_apps.platform.log_consumer import FeedReader, OffsetGoneError
from narthex_spark_apps.supervision.runner import Ended, attempt
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_stores import Record


class TailedFeed(Protocol):
    """A dataset log, or the partitions of one shard of it, that is tailed into a store."""

    assignment: WorkAssignment
    topic: str

    def offsets(self) -> Mapping[int, int]:
        """Return the next offset of each partition, as the store contains it."""


FeedT = TypeVar("FeedT", bound=TailedFeed)
_Stored: TypeAlias = tuple[WorkAssignment, Mapping[int, int]]


@attrs.define
class FeedTails(Generic[FeedT]):
    """The topics of the feeds that run at present.

    Attributes:
        by_topic: The feeds of each topic.
    """

    reader: FeedReader
    by_topic: dict[str, dict[ShardId, FeedT]] = attrs.field(factory=dict)
    _feeds: Mapping[ShardId, FeedT] = attrs.field(factory=dict)

    def follow(self, feeds: Mapping[ShardId, FeedT]) -> Iterator[Ended]:
        """Read the partitions of these feeds from now on.

        A topic whose feeds have changed is read again from where they can go on.

        Yields:
            The feeds whose stores do not return their offsets.
        """
        if feeds == self._feeds:
            return
        before, self._feeds, self.by_topic = self.by_topic, feeds, {}
        stored: dict[str, list[_Stored]] = {}
        for shard_id, feed in feeds.items():
            failed = list(attempt(shard_id, functools.partial(_add_stored, stored, feed)))
            yield from failed
            if not failed:
                self.by_topic.setdefault(feed.topic, {})[shard_id] = feed
        starts = {topic: _lowest(offsets) for topic, offsets in stored.items()}
        self.reader.assign(starts, reads=self._reads)
        for topic, present in self.by_topic.items():
            if not _is_same(before.get(topic, {}), present):
                self.reader.restart(topic)

    def _reads(self, topic: str, partition: int) -> bool:
        feeds = self.by_topic.get(topic, {}).values()
        return any(feed.assignment.reads(partition) for feed in feeds)

    def parts(self, topic: str, records: Sequence[Record]) -> Iterator[tuple[FeedT, list[Record]]]:
        """Yield each feed of a topic that reads some of these records, with those records."""
        for feed in self.by_topic.get(topic, {}).values():
            mine = [record for record in records if feed.assignment.reads(record.partition)]
            if mine:
                yield feed, mine

    def unreadable(self) -> Iterator[Ended]:
        """Return the feeds whose topics cannot be read further."""
        for topic, feeds in self.by_topic.items():
            reason = self.reader.wrong(topic)
            if reason is not None:
                yield from (
                    Ended(shard_id, OffsetGoneError(reason), is_final=True) for shard_id in feeds
                )


def _add_stored(stored: dict[str, list[_Stored]], feed: TailedFeed) -> None:
    offsets = feed.offsets()
    stored.setdefault(feed.topic, []).append((feed.assignment, offsets))


def _lowest(stored: Sequence[_Stored]) -> dict[int, int]:
    """Return the offsets to read a topic from: the lowest that its feeds have stored."""
    starts: dict[int, int] = {}
    for partition in {number for _, offsets in stored for number in offsets}:
        readers = [offsets for assigned, offsets in stored if assigned.reads(partition)]
        if readers and all(partition in offsets for offsets in readers):
            starts[partition] = min(offsets[partition] for offsets in readers)
    return starts


def _is_same(before: Mapping[ShardId, FeedT], present: Mapping[ShardId, FeedT]) -> bool:
    """Whether the same feeds run, each opened only once."""
    if before.keys() != present.keys():
        return False
    return all(before[shard_id] is feed for shard_id, feed in present.items())
