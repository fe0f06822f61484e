"""The report of a history feed about the rows that it has written."""

from pathlib import Path

import attrs
import pytest

from narthex._formats.avro.codec import CorruptFactError, fact_codec
from narthex._ir.assets import (
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
from narthex._ir.facts import TOMBSTONE_TIME, Fact, RowId, Version, position
from narthex._ir.schema import Column
from narthex._ir.types import Int
from narthex.settings import Settings
from narthex_spark_apps.supervision.runner import Progress
from narthex_spark_apps.supervision.runner_messages import WorkAssignment
from narthex_spark_apps.writers import compactions as compactions_module
from narthex_spark_apps.writers.compactions import COMPACT_EACH, Compactions
from narthex_spark_apps.writers.history_writer import (
    WRITE_EVERY_S,
    HistoryFeed,
    late_rows,
    source_partitions,
)
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
    return Record(TOPIC, 0, offset, 0, fact.row_id, fact_codec(LOG).encode(fact), ())


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
    return HistoryFeed.open(WorkAssignment(asset=asset, epoch=1, generation=1), settings)


def test_a_late_row_is_written_and_reported(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=100)

    feed.waiting = [record(0, 1_000), record(1, 0), record(2, 1_001)]
    feed.write()

    assert feed.table.scan().num_rows == 3
    assert (feed.stored, feed.written) == ({0: 3}, 3)
    assert late_rows(feed) == {
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


def test_the_progress_of_source_partitions_is_reported_until_the_feed_restarts(
    settings: Settings,
) -> None:
    feed = open_feed(settings, disorder_us=100)

    feed.waiting = [record(0, 1_000), attrs.evolve(record(1, 10), timestamp_ms=70)]
    feed.write()
    feed.waiting = [record(2, 2_000)]
    feed.write()

    place = "webhook:shop/orders/0"
    assert source_partitions(feed) == {"event_times": {place: 2_000}, "arrivals": {place: 70}}
    again = open_feed_again(settings, disorder_us=100)
    assert source_partitions(again) == {"event_times": {}, "arrivals": {}}
    assert source_partitions(open_feed_again(settings, disorder_us=None)) == {}


def test_a_derived_dataset_reports_no_late_rows(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)

    feed.waiting = [record(0, 1_000), record(1, 0)]
    feed.write()

    assert feed.table.scan().num_rows == 2
    assert late_rows(feed) == {}


def test_a_retraction_does_not_advance_the_newest_event_time(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)
    assert feed.newest_us is None

    feed.waiting = [record(0, TOMBSTONE_TIME)]
    feed.write()
    assert feed.newest_us is None
    feed.waiting = [record(1, 1_000), record(2, TOMBSTONE_TIME)]
    feed.write()

    assert feed.newest_us == 1_000
    assert open_feed_again(settings).newest_us == 1_000


def test_a_feed_is_due_when_records_wait_but_not_twice_within_two_seconds(
    settings: Settings,
) -> None:
    feed = open_feed(settings, disorder_us=None)

    assert not feed.is_due(10.0)
    feed.take(record(0, 1_000))
    assert feed.is_due(10.0)
    feed.wrote_at = 10.0
    assert not feed.is_due(10.0 + WRITE_EVERY_S - 0.1)
    assert feed.is_due(10.0 + WRITE_EVERY_S)


def test_a_feed_that_failed_to_write_has_no_records_that_wait(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)
    feed.take(attrs.evolve(record(0, 1_000), value=b"\x00garbage"))

    with pytest.raises(CorruptFactError):
        feed.write()

    assert (feed.waiting, feed.stored, feed.written) == ([], {}, 0)


def test_offsets_may_be_as_old_as_two_turns(settings: Settings) -> None:
    feed = open_feed(settings, disorder_us=None)
    feed.waited_s = 18.0
    progress = Progress()

    feed.observe(progress)

    assert progress.stale_s == 2 * (18.0 + WRITE_EVERY_S)
    assert progress.read == {TOPIC: {}}


def test_files_of_many_writes_become_few_while_the_feed_writes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactions_module, "COMPACT_EACH", 5)
    compactions, feed = Compactions(), open_feed(settings, disorder_us=None)
    for offset in range(20):
        feed.take(record(offset, 1_000 + offset))
        feed.write()
        compactions.begin_next({1: feed})
    compactions.wait()
    feed.small_files = 5
    compactions.begin_next({1: feed})
    compactions.wait()

    assert len(feed.table.files()) == 1
    assert (feed.small_files, open_feed_again(settings).small_files) == (0, 1)
    assert sorted(feed.table.scan().column("offset").to_pylist()) == list(range(20))
    assert open_feed_again(settings).stored == {0: 20}


def test_the_history_with_most_small_files_is_compacted_and_the_others_wait(
    settings: Settings,
) -> None:
    feed = open_feed(settings, disorder_us=None)
    few, many = open_feed_again(settings), open_feed_again(settings)
    feed.small_files, few.small_files = COMPACT_EACH, COMPACT_EACH - 1
    many.small_files = COMPACT_EACH + 1
    compactions = Compactions()

    compactions.begin_next({1: feed, 2: few, 3: many})
    compactions.wait()
    assert (feed.small_files, few.small_files, many.small_files) == (100, 99, 0)
    compactions.begin_next({1: feed, 2: few, 3: many})
    compactions.wait()
    compactions.begin_next({1: feed, 2: few, 3: many})

    assert (feed.small_files, few.small_files, many.small_files) == (0, 99, 0)
