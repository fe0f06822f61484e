"""Some stories of the state machine at each push; `make model STEPS=100000` tells many."""

from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from tests.crash.machine import Counts, run
from tests.crash.world import World

pytestmark = pytest.mark.postgres

SEEDS = range(2)


def test_no_story_breaks_a_promise(new_postgres_dsn: Callable[[], str], tmp_path: Path) -> None:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    world, counts = World.open(new_postgres_dsn(), tmp_path), Counts()

    run(world, counts, seeds=SEEDS, examples=8, steps=40)

    world.close()
    structlog.configure(**before)
    assert counts.steps >= 400
    assert counts.crashes > 0
    assert counts.cancels > 0
    assert {"FINALIZED", "ABORTED"} <= counts.ended.keys()
