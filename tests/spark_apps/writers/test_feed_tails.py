"""Feeds share the reading of topics; one whose store does not answer does not stop the others."""

import attrs
import pytest

from narthex_spark_apps.platform.log_consumer import FeedReader
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_spark_apps.writers.feed_tails import FeedTails
from narthex_stores import TransientError
from tests.spark_apps.supervision.runner.memory_job_carrier import assignment


@attrs.define(eq=False)
class StoredFeed:
    """A feed whose store may be away."""

    topic: str
    is_away: bool = False
    assignment: WorkAssignment = assignment(1)

    def offsets(self) -> dict[int, int]:
        if self.is_away:
            raise TransientError("the store does not answer")
        return {0: 7}


@pytest.fixture
def tails() -> FeedTails[StoredFeed]:
    """Feeds of a broker that nothing connects to."""
    return FeedTails(FeedReader("127.0.0.1:1"))


def test_a_feed_whose_store_does_not_answer_ends_alone(tails: FeedTails[StoredFeed]) -> None:
    feeds = {
        ShardId(1): StoredFeed("a"),
        ShardId(2): StoredFeed("b", is_away=True),
        ShardId(3): StoredFeed("b"),
    }

    ended = list(tails.follow(feeds))

    assert [one.shard_id for one in ended] == [ShardId(2)]
    assert isinstance(ended[0].error, TransientError)
    assert tails.by_topic == {
        "a": {ShardId(1): feeds[ShardId(1)]},
        "b": {ShardId(3): feeds[ShardId(3)]},
    }
    assert list(tails.follow(feeds)) == []


def test_a_feed_that_starts_again_is_followed(tails: FeedTails[StoredFeed]) -> None:
    away, again = StoredFeed("a", is_away=True), StoredFeed("a")

    assert [one.shard_id for one in tails.follow({ShardId(1): away})] == [ShardId(1)]
    assert list(tails.follow({})) == []
    assert list(tails.follow({ShardId(1): again})) == []

    assert tails.by_topic == {"a": {ShardId(1): again}}
