"""Watermarks of datasets only grow."""

import pytest

from narthex._ir import AssetKind
from narthex_ledger import WHOLE, WatermarkView
from tests.ledger.world import ORDERS, World, blueprint

pytestmark = pytest.mark.postgres


def view(asset_id: int, event_time_us: int, *, place: str = WHOLE, ms: int = 0) -> WatermarkView:
    return WatermarkView(asset_id=asset_id, place=place, event_time_us=event_time_us, arrived_ms=ms)


def feed_of(world: World) -> int:
    """Deploy a dataset and return one of its feeds."""
    world.serving(world.request(1), blueprint(ORDERS))
    (feed,) = (
        job.asset.asset_id
        for job in world.ledger.jobs.all()
        if job.asset.kind is AssetKind.INDEX_FEED
    )
    return feed


def test_a_watermark_never_goes_back(world: World) -> None:
    feed = feed_of(world)
    place = "webhook:shop/orders/0"

    world.ledger.watermarks.advance([view(feed, 5), view(feed, 9, place=place, ms=2)])
    world.ledger.watermarks.advance([view(feed, 3), view(feed, 8, place=place, ms=7)])
    world.ledger.watermarks.advance([])

    assert world.ledger.watermarks.by_feed() == {feed: 5}
    assert world.ledger.watermarks.all() == (view(feed, 5), view(feed, 9, place=place, ms=7))


def test_a_watermark_of_no_job_is_ignored(world: World) -> None:
    feed = feed_of(world)

    world.ledger.watermarks.advance([view(feed + 1_000, 5), view(feed, 6)])

    assert world.ledger.watermarks.by_feed() == {feed: 6}
