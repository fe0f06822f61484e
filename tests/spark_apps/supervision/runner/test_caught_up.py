"""When a job that always has new rows counts as caught up."""

from collections.abc import Mapping

import attrs
import pytest

from narthex._ir.assets import AssetKind, CheckpointSpec, ResolvedAsset
from narthex_spark_apps.supervision.runner import Progress
from narthex_spark_apps.supervision.runner_messages import WorkAssignment

ASSIGNMENT = WorkAssignment(
    asset=ResolvedAsset(
        asset_id=1,
        kind=AssetKind.INDEX_FEED,
        physical_name="rows",
        fingerprint=b"",
        spec=CheckpointSpec(job="job"),
        needs=(),
    ),
    epoch=1,
    generation=1,
)


@attrs.define
class World:
    """A topic that a row comes to each second, and a clock."""

    now: float = 100.0

    def known(self) -> Mapping[str, Mapping[int, int]]:
        return {"rows": {0: int(self.now)}}

    def clock(self) -> float:
        return self.now


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def progress(world: World) -> Progress:
    return Progress(
        topics=("rows",),
        ends=world,
        read={"rows": {0: 90}},
        known=True,
        is_running=True,
        stale_s=10.0,
        clock=world.clock,
    )


def go(world: World, progress: Progress, seconds: int, *, reads_each_s: int | None) -> list[str]:
    """Let time go; return the phase after each second."""
    phases = []
    for _ in range(seconds):
        world.now += 1.0
        if reads_each_s is not None and world.now % reads_each_s == 0:
            progress.read = {"rows": {0: int(world.now)}}
        phases.append(progress.report(ASSIGNMENT).phase)
    return phases


def test_it_is_caught_up_when_it_has_followed_for_as_long_as_it_may_be_stale(
    world: World, progress: Progress
) -> None:
    phases = go(world, progress, 40, reads_each_s=9)

    # Where it has read all there is, it is so at once; for good only after ten seconds.
    assert phases[:3] == ["running"] * 3
    assert set(phases[20:]) == {"caught_up"}


def test_longer_intervals_do_not_take_that_back(world: World, progress: Progress) -> None:
    go(world, progress, 40, reads_each_s=9)

    progress.stale_s = 60.0

    assert set(go(world, progress, 300, reads_each_s=55)) == {"caught_up"}


def test_one_that_reads_no_more_is_behind_before_long(world: World, progress: Progress) -> None:
    go(world, progress, 40, reads_each_s=9)
    progress.stale_s = 60.0

    phases = go(world, progress, 120, reads_each_s=None)

    assert phases[-50:] == ["running"] * 50


def test_one_that_never_followed_is_not_caught_up_by_longer_intervals(
    world: World, progress: Progress
) -> None:
    go(world, progress, 40, reads_each_s=None)

    progress.stale_s = 60.0

    assert set(go(world, progress, 200, reads_each_s=None)) == {"running"}


def test_it_last_worked_at_the_instant_that_is_known_rounded_down_so_that_reports_stay_equal(
    progress: Progress,
) -> None:
    reported = []
    for at_us in (None, 60_000_000, 89_999_999, None, 90_000_000):
        progress.succeed(at_us)
        reported.append(progress.report(ASSIGNMENT).progress["succeeded_at"])

    assert reported == [None, 60_000_000, 60_000_000, 60_000_000, 90_000_000]
