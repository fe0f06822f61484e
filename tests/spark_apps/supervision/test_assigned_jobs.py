"""A supervisor's jobs, brought up to date by changes, are those that a full read returns."""

from collections.abc import Iterator

import pytest

from narthex_ledger import Ledger
from narthex_spark_apps.supervision.assigned_jobs import AssignedJobs
from tests.ledger.world import LATER, World, blueprint, webhook_dataset

PROJECTS = ("ab", "bcd", "a", "acd", "d")
"""The datasets of each commit: some come, some go, some come back."""


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    made = World.open(ledger_dsn)
    yield made
    made.close()


def read(jobs: AssignedJobs, ledger: Ledger, slots: frozenset[int]) -> None:
    jobs.apply(ledger.jobs.changes(slots, since=jobs.since(slots)), slots)


def desired(jobs: AssignedJobs) -> dict[int, tuple[str, int]]:
    return {job.asset.asset_id: (job.desired.value, job.generation) for job in jobs.all}


def test_changes_lead_to_the_same_jobs_as_reading_all(world: World) -> None:
    slots = frozenset(range(4))
    by_changes = AssignedJobs()
    later = world.at(LATER)
    for number, names in enumerate(PROJECTS, start=1):
        wanted = blueprint(*(webhook_dataset(name) for name in names))
        world.serving(world.request(number), wanted)
        read(by_changes, world.ledger, slots)
        world.collect(later)
        read(by_changes, world.ledger, slots)
        anew = AssignedJobs()
        read(anew, world.ledger, slots)
        assert desired(by_changes) == desired(anew)
        assert by_changes.version == anew.version == world.ledger.jobs.registry_version()


def test_a_supervisor_with_other_slots_reads_their_jobs_anew(world: World) -> None:
    world.serving(world.request(1), blueprint(*(webhook_dataset(name) for name in "abcdef")))
    jobs = AssignedJobs()
    read(jobs, world.ledger, frozenset({0, 1}))
    few = set(desired(jobs))
    read(jobs, world.ledger, frozenset({0, 1, 2, 3}))
    assert few < set(desired(jobs)) == {j.asset.asset_id for j in world.ledger.jobs.all()}
    read(jobs, world.ledger, frozenset({0, 1}))
    assert set(desired(jobs)) == few
