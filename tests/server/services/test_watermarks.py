"""The watermark of a dataset: what holds it back, and when a job carries it on."""

import datetime as dt
from typing import Any, Final

import attrs
import pytest

from narthex._base import DAY_US
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import AssetKind, ResolvedAsset, ResolvedNeed
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Files, Kafka, Webhook, source
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.lib import inputs, meta
from narthex_ledger import WHOLE, JobView, WatermarkView
from narthex_ledger.model.states import Desired, Phase
from narthex_ledger.model.views import Epoch, ShardView
from narthex_server.operations.watermarks import Mark, WatermarkPropagation, least

OWNER: Final = meta(owner="a@b.co")
HOUR_US: Final = 3_600_000_000
NOW: Final = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
NOW_MS: Final = int(NOW.timestamp() * 1000)
T: Final = 1_700_000_000_000_000


def clicks(*sources: Any) -> Dataset:
    @OWNER
    @dataset
    class Clicks:
        uid: int
        at: datetime_type

    for one in sources:
        one(Clicks)
    return Clicks


datetime_type = dt.datetime
PUSHED: Final = source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")


def jobs_of(*made: Dataset) -> dict[str, JobView]:
    """Return the jobs of datasets, by their paths, as a ledger would have them."""
    blueprint = compile_blueprint(definitions(made, []))
    by_ref = {one.ref: (number, one) for number, one in enumerate(blueprint.assets, 1)}
    found: dict[str, JobView] = {}
    for number, one in by_ref.values():
        if one.kind not in {
            AssetKind.STREAM_JOB,
            AssetKind.HISTORY_FEED,
            AssetKind.INDEX_FEED,
        }:
            continue
        needs = tuple(
            ResolvedNeed(
                role=need.role,
                kind=by_ref[need.asset][1].kind,
                asset_id=by_ref[need.asset][0],
                physical_name=by_ref[need.asset][1].paths[0],
                spec=by_ref[need.asset][1].spec,
            )
            for need in one.needs
        )
        asset = ResolvedAsset(
            asset_id=number,
            kind=one.kind,
            physical_name=one.paths[0],
            fingerprint=one.fingerprint,
            spec=one.spec,
            needs=needs,
        )
        found[one.paths[0]] = job(asset)
    return found


def job(asset: ResolvedAsset, **progress: Any) -> JobView:
    shard = ShardView(
        shard=0,
        slot=0,
        slot_owner="s",
        slot_epoch=Epoch(1),
        seen_epoch=Epoch(1),
        seen_generation=1,
        phase=Phase.CAUGHT_UP,
        lag_ms=0,
        caught_up_reports=2,
        progress=progress,
        backfill=None,
        reported_at=NOW,
    )
    return JobView(
        asset=asset,
        slot_space="x",
        desired=Desired.RUNNING,
        generation=1,
        spec_sha256=b"",
        checkpoint_incarnation=1,
        needs_backfill=False,
        backfilled_at=NOW - dt.timedelta(days=1),
        backfill_owner=None,
        backfill_epoch=Epoch(1),
        shards=(shard,),
    )


@attrs.define
class Installation:
    """Jobs whose reports a test sets, and what the ledger stores of them."""

    jobs: dict[str, JobView]
    ends: dict[str, dict[int, int]] = attrs.field(factory=dict)
    stored: dict[tuple[int, str], WatermarkView] = attrs.field(factory=dict)
    propagation: WatermarkPropagation = attrs.field(factory=WatermarkPropagation)

    def report(self, path: str, **progress: Any) -> None:
        self.jobs[path] = job(self.jobs[path].asset, **progress)

    def round(self, *, now: dt.datetime = NOW) -> None:
        grown = self.propagation.advance(
            self.jobs.values(), self.ends, stored=self.stored.values(), now=now
        )
        for view in grown:
            known = self.stored.get((view.asset_id, view.place))
            if known is None or known.event_time_us <= view.event_time_us:
                self.stored[view.asset_id, view.place] = view

    def of(self, name: str) -> int | None:
        feed = self.jobs[f"dataset/{name}/history_feed"].asset.asset_id
        found = self.stored.get((feed, WHOLE))
        return None if found is None else found.event_time_us


def test_a_watermark_is_the_newest_event_time_less_the_disorder() -> None:
    shop = Installation(jobs_of(clicks(PUSHED)))

    shop.round()
    before = shop.of("Clicks")
    shop.report(
        "dataset/Clicks/history_feed",
        event_times={"webhook:w/e/0": T},
        arrivals={"webhook:w/e/0": NOW_MS},
    )
    shop.round()

    assert before is None
    assert shop.of("Clicks") == T - HOUR_US


def test_the_partition_that_is_furthest_back_holds_it_back() -> None:
    topic = source(Kafka("k", "b:9").topic("t"), disorder="1h", cdc="append")
    shop = Installation(jobs_of(clicks(topic)))

    shop.report(
        "dataset/Clicks/history_feed",
        event_times={"kafka:b:9/t/0": T, "kafka:b:9/t/3": T - DAY_US},
        arrivals={},
    )
    shop.round()

    assert shop.of("Clicks") == T - DAY_US - HOUR_US


@pytest.mark.parametrize(("idle_for_ms", "expected"), [(3_599_000, T - DAY_US), (3_601_000, T)])
def test_an_idle_partition_is_left_out_after_its_idleness(idle_for_ms: int, expected: int) -> None:
    topic = source(Kafka("k", "b:9").topic("t"), disorder="1h", cdc="append", idleness="1h")
    shop = Installation(jobs_of(clicks(topic)))

    shop.report(
        "dataset/Clicks/history_feed",
        event_times={"kafka:b:9/t/0": T, "kafka:b:9/t/1": T - DAY_US},
        arrivals={"kafka:b:9/t/0": NOW_MS, "kafka:b:9/t/1": NOW_MS - idle_for_ms},
    )
    shop.round()

    assert shop.of("Clicks") == expected - HOUR_US


@pytest.mark.parametrize("backfilled", [True, False])
@pytest.mark.parametrize("idleness", ["1h", None])
def test_a_source_without_a_row_holds_it_back_until_its_idleness_has_passed(
    idleness: str | None, backfilled: bool
) -> None:
    silent = source(Webhook("w").endpoint("silent"), disorder="0s", cdc="append", idleness=idleness)
    shop = Installation(jobs_of(clicks(PUSHED, silent)))
    shop.jobs = {
        path: attrs.evolve(one, needs_backfill=not backfilled, backfilled_at=None)
        for path, one in shop.jobs.items()
    }
    found = []

    for minutes in (0, 59, 61):
        feed = "dataset/Clicks/history_feed"
        now = NOW + dt.timedelta(minutes=minutes)
        shop.report(feed, event_times={"webhook:w/e/0": T}, arrivals={})
        shop.round(now=now)
        found.append(shop.of("Clicks"))

    assert found == [None, None, T - HOUR_US if idleness and backfilled else None]


def test_the_files_of_a_source_are_one_partition() -> None:
    files = source(
        Files("f").path("x/*.csv"), disorder="1h", cdc="append", bounded=True, idleness="1h"
    )
    shop = Installation(jobs_of(clicks(files)))

    shop.report(
        "dataset/Clicks/history_feed",
        event_times={"files:f:x/*.csv/0": T},
        arrivals={"files:f:x/*.csv/0": NOW_MS},
    )
    shop.round()

    assert shop.of("Clicks") == T - HOUR_US


def test_a_watermark_never_goes_back() -> None:
    shop = Installation(jobs_of(clicks(PUSHED)))
    place = "webhook:w/e/0"

    shop.report("dataset/Clicks/history_feed", event_times={place: T}, arrivals={place: NOW_MS})
    shop.round()
    # A new process of the feed, and a new server: neither remembers anything.
    shop.propagation = WatermarkPropagation()
    shop.report("dataset/Clicks/history_feed", event_times={}, arrivals={})
    shop.round()
    shop.report("dataset/Clicks/history_feed", event_times={place: T - DAY_US}, arrivals={})
    shop.round()

    assert shop.of("Clicks") == T - HOUR_US


def recent() -> tuple[Dataset, Dataset]:
    read = clicks(PUSHED)

    @OWNER
    @dataset(index=True)
    class Recent:
        uid: int = field(key=True)
        at: datetime_type

        @pipeline
        @inputs(read)
        def newest(cls, rows: Any) -> Any:  # noqa: N805
            return rows.groupby("uid").latest()

    return read, Recent


def test_a_job_carries_a_watermark_on_once_it_has_read_what_it_is_about() -> None:
    shop = Installation(jobs_of(*recent()))
    log = "dataset/Clicks/log"
    place = "webhook:w/e/0"
    found = []

    def turn(read: int, end: int, newest: int) -> None:
        shop.ends = {log: {0: end, 1: 0}}
        shop.report(
            "dataset/Clicks/history_feed", event_times={place: newest}, arrivals={place: NOW_MS}
        )
        shop.report("job/Recent/pipeline/newest", offsets={log: {"0": read, "1": 0}})
        shop.round()
        found.append(shop.of("Recent"))

    turn(0, 5, T)
    turn(4, 5, T)
    turn(4, 9, T + DAY_US)
    turn(5, 9, T + DAY_US)
    turn(5, 9, T + DAY_US)
    turn(9, 9, T + DAY_US)
    turn(9, 9, T + DAY_US)

    hour = T - HOUR_US
    assert found == [None, None, None, None, hour, hour, hour + DAY_US]


def test_least_leaves_out_what_is_idle_unless_all_are() -> None:
    assert least([]) == Mark(None)
    assert least([Mark(3), Mark(2), Mark(1, is_idle=True)]) == Mark(2)
    assert least([Mark(3), Mark(None)]) == Mark(None)
    assert least([Mark(3, is_idle=True), Mark(5, is_idle=True)]) == Mark(5, is_idle=True)
    assert least([Mark(3), Mark(None, is_idle=True)]) == Mark(3)
