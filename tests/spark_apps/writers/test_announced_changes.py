"""An index that joins read announces the past that a batch changes, before the batch counts."""

import pytest

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import (
    AssetKind,
    FeedSpec,
    IndexSpec,
    LogShape,
    LogSpec,
    ResolvedAsset,
    ResolvedNeed,
    TopicRole,
    TopicSpec,
)
from narthex._ir.facts import Fact, Version
from narthex._ir.schema import Column
from narthex._ir.types import Int, Str
from narthex.settings import Settings
from narthex_spark_apps.supervision.runner_messages import WorkAssignment
from narthex_spark_apps.writers.index_writer import IndexFeed
from narthex_stores import IndexFenced, LogProducer, LogReader, Record, TransientError, index_store
from tests.spark_apps.conftest import Log

LOG = LogSpec(
    shape=LogShape.KEYED,
    keys=(Column("user", Str()),),
    values=(Column("score", Int()),),
    time_field="at",
)
LINGER_MS = 20_000.0
"""How long a record waits for others that nobody flushes: longer than the test takes."""

pytestmark = pytest.mark.kafka


def opened(settings: Settings, announced_in: str) -> IndexFeed:
    spec = IndexSpec(log=LOG)
    index_store(settings).adapter().create("nx_users", spec, asset_id=2, timeout_s=10.0)
    asset = ResolvedAsset(
        asset_id=4,
        kind=AssetKind.INDEX_FEED,
        physical_name="nx_feed",
        fingerprint=b"",
        spec=FeedSpec(dataset="Users", log=LOG),
        needs=(
            _topic(1, "log", "nx_log", TopicRole.DATASET),
            ResolvedNeed(
                role="index",
                kind=AssetKind.INDEX,
                asset_id=2,
                physical_name="nx_users",
                spec=spec,
            ),
            _topic(3, "touched", announced_in, TopicRole.INVALIDATION),
        ),
    )
    return IndexFeed.open(WorkAssignment(asset=asset, epoch=1, generation=1), settings)


def _topic(asset_id: int, role: str, name: str, of: TopicRole) -> ResolvedNeed:
    return ResolvedNeed(
        role=role,
        kind=AssetKind.KAFKA_TOPIC,
        asset_id=asset_id,
        physical_name=name,
        spec=TopicSpec(role=of, partitions=1),
    )


def record_of(user: str) -> Record:
    fact = Fact(
        row_id=keyed_row_id(key_bytes(LOG.keys, (user,)), 5),
        version=Version(b"\x01"),
        event_time=5,
        key=(user,),
        values=(7,),
    )
    return Record("nx_log", 0, 0, 0, user.encode(), fact_codec(LOG).encode(fact), ())


def test_changes_are_in_their_topic_before_the_batch_is_in_the_index(
    platform: Settings, log: Log
) -> None:
    """A batch that fails is announced all the same: a repetition is harmless, a loss is not."""
    announced_in = log.topic("touched")
    feed = opened(platform, announced_in)
    feed.index.raise_epoch(2)

    with (
        LogProducer(log.bootstrap, linger_ms=LINGER_MS) as producer,
        LogReader(log.bootstrap) as reader,
    ):
        with pytest.raises(IndexFenced):
            feed.apply([record_of("ada"), record_of("bob")], producer)

        assert reader.end_offsets([announced_in]) == {(announced_in, 0): 2}
    feed.stop()


def test_a_batch_whose_changes_cannot_be_announced_is_not_applied(
    platform: Settings, log: Log
) -> None:
    feed = opened(platform, log.topic("touched"))
    producer = LogProducer(log.bootstrap)
    producer.close()

    with pytest.raises(TransientError):
        feed.apply([record_of("ada")], producer)

    assert feed.offsets() == {}
    feed.stop()
