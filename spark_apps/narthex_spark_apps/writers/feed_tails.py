"""One consumer for many feeds: each topic is read once, from where all its feeds can go on."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from narthex_spark_apps.platform.log_consumer import FeedReader, OffsetGoneError
from narthex_spark_apps.supervision.runner import Ended, attempt


class TailedFeed(Protocol):
    """A dataset log that is tailed into a store."""

    topic: str

    def offsets(self) -> Mapping[int, int]:
        """Return the next offset of each partition, as the store contains it."""


FeedT = TypeVar("FeedT", bound=TailedFeed)


@attrs.define
class FeedTails(Generic[FeedT]):
    """The topics of the feeds that run at present.

    Attributes:
        by_topic: The feeds of each topic, by asset.
    """

    reader: FeedReader
    by_topic: dict[str, dict[int, FeedT]] = attrs.field(factory=dict)
    _feeds: Mapping[int, FeedT] = attrs.field(factory=dict)

    def follow(self, feeds: Mapping[int, FeedT]) -> Iterator[Ended]:
        """Read the topics of these feeds from now on; a new feed's topic is read again.

        Yields:
            The feeds whose stores do not return their offsets.
        """
        if feeds == self._feeds:
            return
        old, self._feeds, self.by_topic = self._feeds, feeds, {}
        opened: set[str] = set()
        starts: dict[str, list[Mapping[int, int]]] = {}
        for asset_id, feed in feeds.items():
            failed = list(attempt(asset_id, functools.partial(_add_start, starts, feed)))
            yield from failed
            if failed:
                continue
            self.by_topic.setdefault(feed.topic, {})[asset_id] = feed
            if old.get(asset_id) is not feed:
                opened.add(feed.topic)
        self.reader.assign({topic: _lowest(stored) for topic, stored in starts.items()})
        for topic in opened:
            self.reader.restart(topic)

    def unreadable(self) -> Iterator[Ended]:
        """Return the feeds whose topics cannot be read further."""
        for topic, feeds in self.by_topic.items():
            reason = self.reader.wrong(topic)
            if reason is not None:
                yield from (
                    Ended(asset_id, OffsetGoneError(reason), is_final=True) for asset_id in feeds
                )


def _add_start(starts: dict[str, list[Mapping[int, int]]], feed: TailedFeed) -> None:
    stored = feed.offsets()
    starts.setdefault(feed.topic, []).append(stored)


def _lowest(starts: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """Return the offsets to read a topic from: the lowest that its feeds have stored."""
    shared = set.intersection(*(set(start) for start in starts))
    return {partition: min(start[partition] for start in starts) for partition in shared}
