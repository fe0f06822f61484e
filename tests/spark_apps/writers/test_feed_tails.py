"""Feeds share the reading of topics; one whose store does not answer does not stop the others."""

import attrs
import pytest

from narthex_spark_apps.platform.log_consumer import FeedReader
from narthex_spark_apps.writers.feed_tails import FeedTails
from narthex_stores import TransientError


@attrs.define(eq=False)
class StoredFeed:
    """A feed whose store may be away."""

    topic: str
    is_away: bool = False

    def offsets(self) -> dict[int, int]:
        if self.is_away:
            raise TransientError("the store does not answer")
        return {0: 7}


@pytest.fixture
def tails() -> FeedTails[StoredFeed]:
    """Feeds of a broker that nothing connects to."""
    return FeedTails(FeedReader("127.0.0.1:1"))


def test_a_feed_whose_store_does_not_answer_ends_alone(tails: FeedTails[StoredFeed]) -> None:
    feeds = {1: StoredFeed("a"), 2: StoredFeed("b", is_away=True), 3: StoredFeed("b")}

    ended = list(tails.follow(feeds))

    assert [one.asset_id for one in ended] == [2]
    assert isinstance(ended[0].error, TransientError)
    assert tails.by_topic == {"a": {1: feeds[1]}, "b": {3: feeds[3]}}
    assert list(tails.follow(feeds)) == []


def test_a_feed_that_starts_again_is_followed(tails: FeedTails[StoredFeed]) -> None:
    away, again = StoredFeed("a", is_away=True), StoredFeed("a")

    assert [one.asset_id for one in tails.follow({1: away})] == [1]
    assert list(tails.follow({})) == []
    assert list(tails.follow({1: again})) == []

    assert tails.by_topic == {"a": {1: again}}
