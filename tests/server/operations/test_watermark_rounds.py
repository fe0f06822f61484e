"""Watermarks as the loop stores them from reports of jobs, and as the API shows them."""

from collections.abc import Iterable
from typing import Any

import pytest

from narthex._ir import AssetKind
from narthex_ledger import JobView, Phase, ShardReport
from narthex_server.operations.watermark_rounds import WatermarkRounds
from narthex_server.operations.watermarks import Ends
from tests.server.conftest import House
from tests.server.driving import serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

NOON = 1_772_452_800_000_000  # 2026-03-02T12:00:00Z
PLACE = "webhook:shop/orders/0"
END = 7


def report(house: House, progress: dict[int, dict[str, Any]]) -> None:
    """Report jobs as running, with progress by asset."""
    slots = {shard.slot for job in house.ledger.jobs.all() for shard in job.shards}
    leases = house.ledger.slots.claim("tests", sorted(slots))
    epochs = {lease.slot: lease.epoch for lease in leases}
    refused = house.ledger.jobs.report(
        [
            ShardReport(
                asset_id=job.asset.asset_id,
                shard=shard.shard,
                generation=job.generation,
                epoch=epochs[shard.slot],
                phase=Phase.CAUGHT_UP,
                progress=progress[job.asset.asset_id],
            )
            for job in house.ledger.jobs.all()
            for shard in job.shards
            if job.asset.asset_id in progress
        ]
    )
    assert refused == ()


def job_of(house: House, label: str, kind: AssetKind) -> JobView:
    (found,) = (
        job
        for job in house.ledger.jobs.all()
        if job.asset.kind is kind and getattr(job.asset.spec, "dataset", "") == label
    )
    return found


def ends(topics: Iterable[str]) -> Ends:
    return {topic: {0: END} for topic in topics}


def shown(house: House) -> dict[str, Any]:
    found: Any = house.client.get("/api/v1/datasets").json()["datasets"]
    return {one["name"]: one["watermark"] for one in found}


def test_watermarks_are_stored_and_shown_for_measured_and_computed_datasets(house: House) -> None:
    serve(house, shop_definitions())
    feed = job_of(house, "Orders", AssetKind.HISTORY_FEED).asset
    pipeline = job_of(house, "Spend", AssetKind.STREAM_JOB).asset
    log = pipeline.need("input:Orders").physical_name
    loop = WatermarkRounds(house.ledger, ends)
    event_times = {"event_times": {PLACE: NOON}, "arrivals": {PLACE: 1}}

    report(house, {feed.asset_id: event_times, pipeline.asset_id: {"offsets": {log: {"0": 3}}}})
    loop.advance()
    early = shown(house)
    loop.advance()
    behind = shown(house)
    # The feed begins anew; only the pipeline has gone on.
    report(house, {feed.asset_id: {}, pipeline.asset_id: {"offsets": {log: {"0": END}}}})
    loop.advance()
    loop.advance()

    before = "2026-03-01T12:00:00.000000Z"
    assert (early["Orders"], early["Spend"]) == (before, None)
    assert (behind["Orders"], behind["Spend"]) == (before, None)
    assert (shown(house)["Orders"], shown(house)["Spend"]) == (before, before)
    assert shown(house)["Users"] is None
    jobs: Any = house.client.get("/api/v1/jobs").json()["jobs"]
    assert [one["watermark"] for one in jobs if one["asset_id"] == feed.asset_id] == [before]
    metrics = house.client.get("/api/v1/metrics").text
    assert 'narthex_dataset_watermark_seconds{dataset="Spend"} 1772366400' in metrics


def test_a_new_server_keeps_the_watermarks_of_the_ledger(house: House) -> None:
    serve(house, shop_definitions())
    feed = job_of(house, "Orders", AssetKind.HISTORY_FEED).asset

    for newest in (NOON, NOON - 1):
        report(house, {feed.asset_id: {"event_times": {PLACE: newest}, "arrivals": {}}})
        WatermarkRounds(house.ledger, ends).advance()

    assert shown(house)["Orders"] == "2026-03-01T12:00:00.000000Z"
