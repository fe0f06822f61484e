"""One consumer for many feeds: each topic is read once, from where all its feeds can go on."""

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import attrs

from narthex_spark_apps.platform.log_consumer import FeedReader, OffsetGoneError
from narthex_spark_apps.supervision.runner import Ended


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

    def follow(self, feeds: Mapping[int, FeedT]) -> None:
        """Read the topics of these feeds from now on; a new feed's topic is read again."""
        if feeds == self._feeds:
            return
        old = self._feeds
        opened = {feed.topic for asset_id, feed in feeds.items() if old.get(asset_id) is not feed}
        self._feeds = feeds
        self.by_topic = {}
        for asset_id, feed in feeds.items():
            self.by_topic.setdefault(feed.topic, {})[asset_id] = feed
        self.reader.assign({topic: self._start(topic) for topic in self.by_topic})
        for topic in opened:
            self.reader.restart(topic)

    def _start(self, topic: str) -> dict[int, int]:
        """Return the offsets to read a topic from: the lowest that its feeds have stored."""
        starts = [feed.offsets() for feed in self.by_topic[topic].values()]
        shared = set.intersection(*(set(start) for start in starts))
        return {partition: min(start[partition] for start in starts) for partition in shared}

    def unreadable(self) -> Iterator[Ended]:
        """Return the feeds whose topics cannot be read further."""
        for topic, feeds in self.by_topic.items():
            reason = self.reader.wrong(topic)
            if reason is not None:
                yield from (
                    Ended(asset_id, OffsetGoneError(reason), is_final=True) for asset_id in feeds
                )
