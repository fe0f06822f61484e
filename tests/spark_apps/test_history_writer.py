"""What a history feed tells of the rows that it has written."""

from pathlib import Path

import pytest

from narthex.assets import (
    AssetKind,
    FeedSpec,
    HistorySpec,
    LogShape,
    LogSpec,
    ResolvedAsset,
    ResolvedNeed,
    TopicRole,
    TopicSpec,
)
from narthex.codec import encode
from narthex.facts import NEVER, Fact, RowId, Version, position
from narthex.schema import Column
from narthex.settings import Settings
from narthex.types import Int
from narthex_spark_apps.children import Assignment
from narthex_spark_apps.history_writer import HistoryFeed, lateness_told
from narthex_stores import HistoryAdapter, Record

LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=(Column("n", Int()),), time_field="at")
TOPIC = "nx_orders"


def record(offset: int, event_time: int) -> Record:
    fact = Fact(
        row_id=RowId(position("webhook:shop/orders", 0, offset)),
        version=Version(b"\x00"),
        event_time=event_time,
        key=(),
        values=(offset,),
    )
    return Record(TOPIC, 0, offset, 0, fact.row_id, encode(LOG).encode(fact), ())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
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


def open_feed(settings: Settings, *, disorder_us: int | None) -> HistoryFeed:
    HistoryAdapter(history_dir=settings.history_dir).create(
        "nx_history", HistorySpec(log=LOG), asset_id=2, timeout_s=10.0
    )
    return open_feed_again(settings, disorder_us=disorder_us)


def open_feed_again(settings: Settings, *, disorder_us: int | None = None) -> HistoryFeed:
    spec = HistorySpec(log=LOG)
    topic = TopicSpec(role=TopicRole.DATASET, partitions=2, log=LOG)
    asset = ResolvedAsset(
        asset_id=3,
        kind=AssetKind.HISTORY_FEED,
        physical_name="nx_feed",
        fingerprint=b"",
        spec=FeedSpec(dataset="Orders", log=LOG, disorder_us=disorder_us),
        needs=(
            ResolvedNeed(
                role="log",
                kind=AssetKind.KAFKA_TOPIC,
                asset_id=1,
                physical_name=TOPIC,
                spec=topic,
            ),
            ResolvedNeed(
                role="history",
                kind=AssetKind.HISTORY,
                asset_id=2,
                physical_name="nx_history",
                spec=spec,
            ),
        ),
    )
    return HistoryFeed.open(Assignment(asset=asset, epoch=1, generation=1), settings)


def test_a_late_row_is_written_like_any_other_and_told(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=100)

    feed.waiting = [record(0, 1_000), record(1, 0), record(2, 1_001)]
    feed.write()

    assert feed.table.scan().num_rows == 3
    assert (feed.offsets, feed.written) == ({0: 3}, 3)
    assert lateness_told(feed) == {
        "late": 1,
        "late_rows": [
            {
                "key": {},
                "source": "webhook:shop/orders",
                "partition": 0,
                "offset": 1,
                "ordinal": 0,
                "event_time": "1970-01-01T00:00:00.000000Z",
                "late_s": 0.0009,
            }
        ],
    }


def test_a_dataset_that_no_source_fills_has_no_late_rows_to_tell(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)

    feed.waiting = [record(0, 1_000), record(1, 0)]
    feed.write()

    assert feed.table.scan().num_rows == 2
    assert lateness_told(feed) == {}


def test_what_takes_a_row_back_is_no_newest_event(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)
    assert feed.newest_us is None

    feed.waiting = [record(0, NEVER)]
    feed.write()
    assert feed.newest_us is None
    feed.waiting = [record(1, 1_000), record(2, NEVER)]
    feed.write()

    assert feed.newest_us == 1_000
    assert open_feed_again(settings).newest_us == 1_000
