"""An index feed applies facts, by columns where possible, and stops when it is fenced."""

from pathlib import Path

import attrs
import pytest

from narthex._formats.avro.codec import CorruptFactError, fact_codec
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
from narthex._ir.types import DataType, Decimal, Int, Str
from narthex._ir.windows import Continuous
from narthex.settings import Settings
from narthex_spark_apps.supervision.runner_messages import WorkAssignment
from narthex_spark_apps.writers.index_writer import FLUSH_AFTER_S, IndexFeed, flushable
from narthex_stores import IndexFenced, LogProducer, Record, index_store

TOPIC = "nx_spend"
W = Continuous("forever")


def log_of(of: DataType) -> LogSpec:
    return LogSpec(
        shape=LogShape.CONTRIBUTIONS,
        keys=(Column("user", Str()),),
        values=(Column("amount", of),),
        time_field="at",
    )


def record(log: LogSpec, offset: int, amount: int, *, version: bytes = b"\x00") -> Record:
    fact = Fact(
        row_id=RowId(position("webhook:shop/orders", 0, offset)),
        version=Version(version),
        event_time=offset,
        key=("u",),
        values=(amount,),
    )
    return Record(TOPIC, 0, offset, 0, b"u", fact_codec(log).encode(fact), ())


def open_feed(settings: Settings, of: DataType, *, epoch: int = 1) -> IndexFeed:
    log = log_of(of)
    spec = IndexSpec(
        log=log,
        aggregates=(
            TypedAggregate(Count(into="n", window=W), None, Int()),
            TypedAggregate(Sum(into="s", window=W, of="amount"), of, of),
        ),
        ladder_us=(5,),
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
    return IndexFeed.open(WorkAssignment(asset=asset, epoch=epoch, generation=1), settings)


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

    assert flushable({3: feed}, float("inf")) == {}
    feed.apply([record(feed.index.spec.log, 0, 1)], producer)
    since = feed.unflushed_since
    assert since is not None
    feed.apply([record(feed.index.spec.log, 1, 1)], producer)
    assert flushable({3: feed}, since + FLUSH_AFTER_S - 0.1) == {}
    assert flushable({3: feed}, since + FLUSH_AFTER_S) == {3: since}
    feed.flush()
    assert flushable({3: feed}, float("inf")) == {}
    feed.index.close()
