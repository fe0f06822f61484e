"""An index feed applies facts, by columns where possible, and stops when it is fenced."""

import shutil
from pathlib import Path

import attrs
import pytest

from narthex._formats.avro.codec import CorruptFactError, fact_codec
from narthex._formats.keys import key_bytes
from narthex._ir.aggregate_specs import Count, Sum, TypedAggregate
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
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.shards import partition_of
from narthex._ir.types import DataType, Decimal, Int, Str
from narthex._ir.windows import Continuous
from narthex.settings import Settings
from narthex_spark_apps.platform.log_consumer import FeedReader
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment
from narthex_spark_apps.writers.feed_tails import FeedTails
from narthex_spark_apps.writers.index_writer import (
    FLUSH_AFTER_S,
    IndexFeed,
    PartitionsChangedError,
    flushable,
    misdivided,
)
from narthex_stores import IndexFenced, LogProducer, Record, index_store
from narthex_stores.indexes import Part, stored_entries

TOPIC = "nx_spend"
W = Continuous("forever")


def log_of(of: DataType) -> LogSpec:
    return LogSpec(
        shape=LogShape.CONTRIBUTIONS,
        keys=(Column("user", Str()),),
        values=(Column("amount", of),),
        time_field="at",
    )


def record(
    log: LogSpec, offset: int, amount: int, *, version: bytes = b"\x00", user: str = "u"
) -> Record:
    fact = Fact(
        row_id=RowId(position("webhook:shop/orders", 0, offset)),
        version=Version(version),
        event_time=offset,
        key=(user,),
        values=(amount,),
    )
    return Record(TOPIC, 0, offset, 0, b"u", fact_codec(log).encode(fact), ())


def open_feed(
    settings: Settings,
    of: DataType,
    *,
    epoch: int = 1,
    shard: int = 0,
    shards: int = 1,
    history_us: int | None = None,
) -> IndexFeed:
    log = log_of(of)
    spec = IndexSpec(
        log=log,
        aggregates=(
            TypedAggregate(Count(into="n", window=W), None, Int()),
            TypedAggregate(Sum(into="s", window=W, of="amount"), of, of),
        ),
        ladder_us=(5,),
        shards=shards,
        history_us=history_us,
        expires=history_us is not None,
    )
    index_store(settings).adapter().create("nx_index", spec, asset_id=2, timeout_s=10.0)
    topic = TopicSpec(role=TopicRole.DATASET, partitions=1, log=log)
    asset = ResolvedAsset(
        asset_id=3,
        kind=AssetKind.INDEX_FEED,
        physical_name="nx_feed",
        fingerprint=b"",
        spec=FeedSpec(dataset="Spend", log=log),
        needs=(
            ResolvedNeed(
                role="log",
                kind=AssetKind.KAFKA_TOPIC,
                asset_id=1,
                physical_name=TOPIC,
                spec=topic,
            ),
            ResolvedNeed(
                role="index",
                kind=AssetKind.INDEX,
                asset_id=2,
                physical_name="nx_index",
                spec=spec,
            ),
        ),
    )
    assignment = WorkAssignment(asset=asset, epoch=epoch, generation=1, shard=shard, shards=shards)
    return IndexFeed.open(assignment, settings)


@pytest.fixture
def platform(tmp_path: Path) -> Settings:
    """Return settings with this test's own directories, without a broker."""
    return Settings(
        home=tmp_path,
        install_id="testtest",
        ledger_dsn="",
        kafka="",
        server_url="",
        token="",
        index_dir=tmp_path / "index",
        history_dir=str(tmp_path / "history"),
        checkpoint_dir=tmp_path / "checkpoints",
        files_root=tmp_path / "files",
        jars_dir=tmp_path / "jars",
    )


@pytest.fixture
def producer() -> LogProducer:
    """Return one that nothing listens to: a feed without joins announces nothing."""
    return LogProducer("127.0.0.1:1")


@pytest.mark.parametrize(("of", "by_columns"), [(Int(), True), (Decimal(2), False)])
def test_a_feed_takes_in_each_row_once_with_its_offset(
    platform: Settings, producer: LogProducer, of: DataType, *, by_columns: bool
) -> None:
    feed = open_feed(platform, of)
    log = feed.index.spec.log

    assert (feed.columns is not None) == by_columns
    feed.apply([record(log, at, 10 + at) for at in range(3)], producer)
    feed.apply([record(log, 2, 12), record(log, 3, 13)], producer)
    feed.apply([attrs.evolve(record(log, 0, 99, version=b"\x01"), offset=4)], producer)

    assert (feed.applied, feed.duplicates) == (5, 1)
    assert feed.index.offsets() == {(TOPIC, 0): 5}
    with feed.index.read() as snapshot:
        (found,) = snapshot.lookup([("u",)], [100])
        (by_tiles,) = snapshot.reading(0).lookup([("u",)], [100])
    assert found is not None
    assert found.values == (4, 99 + 11 + 12 + 13)
    assert by_tiles == found
    feed.index.close()


def test_a_feed_of_an_older_epoch_stops(platform: Settings, producer: LogProducer) -> None:
    feed = open_feed(platform, Int())
    feed.index.raise_epoch(2)

    with pytest.raises(IndexFenced):
        feed.apply([record(feed.index.spec.log, 0, 1)], producer)

    assert feed.index.offsets() == {}
    feed.index.close()


def test_a_corrupt_record_is_named_and_nothing_is_applied(
    platform: Settings, producer: LogProducer
) -> None:
    feed = open_feed(platform, Int())
    broken = Record(TOPIC, 0, 1, 0, b"u", b"\x00garbage", ())

    with pytest.raises(CorruptFactError):
        feed.apply([record(feed.index.spec.log, 0, 1), broken], producer)

    assert feed.index.offsets() == {}
    feed.index.close()


def test_only_an_index_with_batches_that_are_not_durable_is_flushed(
    platform: Settings, producer: LogProducer
) -> None:
    feed = open_feed(platform, Int())

    assert flushable({ShardId(3): feed}, float("inf")) == {}
    feed.apply([record(feed.index.spec.log, 0, 1)], producer)
    since = feed.unflushed_since
    assert since is not None
    feed.apply([record(feed.index.spec.log, 1, 1)], producer)
    assert flushable({ShardId(3): feed}, since + FLUSH_AFTER_S - 0.1) == {}
    assert flushable({ShardId(3): feed}, since + FLUSH_AFTER_S) == {ShardId(3): since}
    feed.flush()
    assert flushable({ShardId(3): feed}, float("inf")) == {}
    feed.index.close()


def test_each_shard_has_the_rows_and_offsets_of_its_own_partitions(
    platform: Settings, producer: LogProducer
) -> None:
    users = {partition_of(key_bytes(log_of(Int()).keys, (u,)), 3): u for u in "abcdefgh"}
    feeds = [open_feed(platform, Int(), shard=shard, shards=3) for shard in range(3)]
    log = feeds[0].index.spec.log
    records = [
        attrs.evolve(record(log, 0, 10 * shard, user=users[shard]), partition=shard)
        for shard in range(3)
    ]
    tails = FeedTails(FeedReader("127.0.0.1:1"))
    tails.by_topic = {TOPIC: {feed.assignment.shard_id: feed for feed in feeds}}
    for feed, part in tails.parts(TOPIC, records):
        feed.apply(part, producer)
    tails.reader.close()

    assert [feed.offsets() for feed in feeds] == [{0: 1}, {1: 1}, {2: 1}]
    assert all(feed.columns is not None for feed in feeds)
    spec = feeds[0].index.spec
    for feed in feeds:
        feed.stop()
    index = index_store(platform).open("nx_index", spec, readonly=True)
    with index.read() as snapshot:
        answers = snapshot.lookup([(users[shard],) for shard in range(3)], [9, 9, 9])
    assert [answer.values for answer in answers if answer is not None] == [(1, 0), (1, 10), (1, 20)]
    index.close()


def test_a_lost_shard_comes_back_empty_and_the_others_stay(
    platform: Settings, producer: LogProducer
) -> None:
    feeds = [open_feed(platform, Int(), shard=shard, shards=3) for shard in range(3)]
    log = feeds[0].index.spec.log
    for shard, feed in enumerate(feeds):
        feed.apply([attrs.evolve(record(log, 4, 1), partition=shard)], producer)
        feed.stop()
    shutil.rmtree(platform.index_dir / "nx_index" / "s1")

    again = [open_feed(platform, Int(), epoch=2, shard=shard, shards=3) for shard in range(3)]

    assert [feed.offsets() for feed in again] == [{0: 5}, {}, {2: 5}]
    for feed in again:
        feed.stop()
    shutil.rmtree(platform.index_dir / "nx_index")
    assert open_feed(platform, Int(), epoch=3, shard=2, shards=3).offsets() == {}


@pytest.mark.parametrize(("partitions", "wrong"), [(0, False), (3, False), (6, False), (4, True)])
def test_a_divided_index_refuses_a_log_whose_keys_have_moved(
    platform: Settings, partitions: int, *, wrong: bool
) -> None:
    feed = open_feed(platform, Int(), shard=2, shards=3)
    ends = {TOPIC: dict.fromkeys(range(partitions), 0)}

    ended = list(misdivided({ShardId(3, 2): feed}, ends))

    assert [(end.shard_id, type(end.error)) for end in ended] == (
        [(ShardId(3, 2), PartitionsChangedError)] if wrong else []
    )
    feed.stop()


def test_a_flush_deletes_rows_that_no_lookup_sees_any_more(
    platform: Settings, producer: LogProducer
) -> None:
    feed = open_feed(platform, Int(), history_us=10)
    feed.apply([record(feed.index.spec.log, at, at) for at in range(101)], producer)
    with feed.index.read() as snapshot:
        (before,) = snapshot.lookup([("u",)], [100])

    feed.flush()

    assert before is not None
    assert before.values == (11, sum(range(90, 101)))
    with feed.index.read() as snapshot, stored_entries(snapshot) as entries:
        assert snapshot.answered_from == 90
        assert snapshot.lookup([("u",)], [100]) == [before]
        assert len(list(entries.tables.entries(Part.ROWS))) == 21
    feed.index.close()


def test_an_index_without_a_history_keeps_all_rows(
    platform: Settings, producer: LogProducer
) -> None:
    feed = open_feed(platform, Int())
    feed.apply([record(feed.index.spec.log, at, at) for at in range(101)], producer)
    feed.flush()

    with feed.index.read() as snapshot, stored_entries(snapshot) as entries:
        assert snapshot.answered_from is None
        assert len(list(entries.tables.entries(Part.ROWS))) == 101
    feed.index.close()
