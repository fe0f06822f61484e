"""When a job that always has new rows counts as caught up."""

from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from narthex._ir.assets import PipelineInput
from narthex._ir.operators import DatasetRef, Drop
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex_spark_apps.jobs.progress import Progress
from narthex_spark_apps.supervision.child_messages import WorkAssignment
from tests.spark_apps.spark_jobs import checkpoint_need, log_of, pipeline_job, topic_need

ROWS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
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
def progress(world: World, tmp_path: Path) -> Progress:
    job = pipeline_job(
        Drop(DatasetRef("Rows"), ("n",)),
        inputs=(PipelineInput(dataset="Rows", log=log_of(ROWS), schema=ROWS),),
        schema=Schema(tuple(one for one in ROWS.fields if one.name != "n")),
        needs=(
            topic_need("input:Rows", "rows", log=log_of(ROWS)),
            topic_need("output", "out"),
            checkpoint_need(tmp_path),
        ),
    )
    found = Progress(
        assignment=WorkAssignment(asset=job.asset, epoch=1, generation=1),
        ends=world,
        clock=world.clock,
        known=True,
        stale_s=10.0,
    )
    found.read = {"rows": {0: 90}}
    return found


def go(world: World, progress: Progress, seconds: int, *, reads_each_s: int | None) -> list[str]:
    """Let time go; give the phase after each second."""
    said = []
    for _ in range(seconds):
        world.now += 1.0
        if reads_each_s is not None and world.now % reads_each_s == 0:
            progress.read = {"rows": {0: int(world.now)}}
        said.append(progress.report(is_running=True, behind=progress.behind()).phase)
    return said


def test_it_is_caught_up_when_it_has_followed_for_as_long_as_it_may_be_stale(
    world: World, progress: Progress
) -> None:
    said = go(world, progress, 40, reads_each_s=9)

    # Where it has read all there is, it is so at once; for good only after ten seconds.
    assert said[:3] == ["running"] * 3
    assert set(said[20:]) == {"caught_up"}


def test_longer_intervals_do_not_take_that_back(world: World, progress: Progress) -> None:
    go(world, progress, 40, reads_each_s=9)

    progress.stale_s = 60.0

    assert set(go(world, progress, 300, reads_each_s=55)) == {"caught_up"}


def test_one_that_reads_no_more_is_behind_before_long(world: World, progress: Progress) -> None:
    go(world, progress, 40, reads_each_s=9)
    progress.stale_s = 60.0

    said = go(world, progress, 120, reads_each_s=None)

    assert said[-50:] == ["running"] * 50


def test_one_that_never_followed_is_not_caught_up_by_longer_intervals(
    world: World, progress: Progress
) -> None:
    go(world, progress, 40, reads_each_s=None)

    progress.stale_s = 60.0

    assert set(go(world, progress, 200, reads_each_s=None)) == {"running"}
