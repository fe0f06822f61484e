"""Any number of supervisors share the work, and the totals are exact after any failure."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from narthex._ir import AssetKind
from narthex_ledger import preferred_engines
from narthex_spark_apps.supervision.supervisor import COMING_UP_WEIGHT, SLOT_SPACE
from tests.supervision.plant import RUNNERS, WITHIN_S, Installation, wait_for

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@contextmanager
def load(plant: Installation) -> Iterator[None]:
    """Send orders all the time."""
    stopping = threading.Event()

    def send() -> None:
        number = len(plant.sent)
        while not stopping.wait(0.05):
            plant.order(number)
            number += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_supervisors_that_come_and_go_share_the_slots_evenly_and_lose_nothing(
    plant: Installation,
) -> None:
    plant.supervise("one")
    plant.wait_held("one")
    with load(plant):
        plant.supervise("two")
        plant.supervise("three")
        plant.wait_held("one", "two", "three")
        for name in ("one", "three"):
            plant.supervisors[name].signal(signal.SIGTERM)
        plant.wait_held("two")
        assert [plant.supervisors[name].process.wait(WITHIN_S) for name in ("one", "three")] == [
            0,
            0,
        ]

    plant.wait_exact()
    assert "leases_lost" not in plant.supervisors["two"].log("supervisor")


def test_a_supervisor_gets_its_share_when_its_driver_is_up(plant: Installation) -> None:
    ledger = plant.house.ledger
    plant.supervise("one")
    plant.wait_held("one")
    plant.supervise("two", lazy=False)
    weights = wait_for(
        lambda: found if len(found := ledger.engines.alive()) > 1 else None,
        what="the second one is known",
        so_far=ledger.engines,
    )

    assert sorted(weights.values()) == [COMING_UP_WEIGHT, 1.0]
    wished = preferred_engines(SLOT_SPACE, ledger.slots.count(), weights)
    assert {weights[engine] for engine in wished if engine is not None} == {1.0}
    plant.wait_held("one", "two")


def test_other_supervisors_take_the_slots_of_a_killed_one_when_its_leases_end(
    plant: Installation,
) -> None:
    one = plant.supervise("one")
    plant.supervise("two")
    plant.wait_held("one", "two")
    with load(plant):
        one.signal(signal.SIGKILL)
        plant.wait_held("two")

    plant.wait_exact()


def test_the_shards_of_a_job_run_on_several_supervisors_and_survive_the_end_of_one(
    plant: Installation,
) -> None:
    one = plant.supervise("one")
    plant.supervise("two")
    plant.wait_held("one", "two")
    plant.wait_reported()
    owners = plant.owners_of("Volume")
    assert {kind: len(shards) for kind, shards in owners.items()} == {
        AssetKind.INDEX_FEED: 16,
        AssetKind.STREAM_JOB: 4,
        AssetKind.HISTORY_FEED: 1,
    }
    assert len(set(owners[AssetKind.INDEX_FEED])) == 2
    with load(plant):
        wait_for(lambda: len(plant.sent) % 60 > 40, what="some orders", so_far=plant.jobs)
        one.signal(signal.SIGKILL)
        plant.wait_held("two")

    plant.wait_exact()


def test_a_supervisor_that_starts_again_takes_its_own_slots_back_at_once(
    plant: Installation,
) -> None:
    one = plant.supervise("one")
    plant.wait_held("one")
    with load(plant):
        one.signal(signal.SIGKILL)
        one.process.wait()
        plant.supervise("one")
        plant.wait_held("one")

    plant.wait_exact()
    assert "slots_reclaimed" in plant.supervisors["one"].log("supervisor")


def test_a_second_supervisor_of_one_name_is_refused(plant: Installation) -> None:
    plant.supervise("one")
    plant.wait_held("one")

    first = plant.supervisors["one"]
    again = plant.supervise("one")
    plant.supervisors["one"] = first

    assert again.process.wait(WITHIN_S) == 1
    assert "give this one another `--name`" in again.log("supervisor")


def test_a_stopped_supervisor_is_fenced_when_it_resumes(
    plant: Installation,
) -> None:
    one = plant.supervise("one")
    plant.wait_held("one")
    plant.wait_reported()
    with load(plant):
        one.signal(signal.SIGSTOP, with_driver=True)
        plant.supervise("two")
        plant.wait_held("two")

        one.signal(signal.SIGCONT, with_driver=True)
        wait_for(
            lambda: "leases_lost" in one.log("supervisor"),
            what="the zombie sees what it lost",
            so_far=lambda: one.log("supervisor"),
        )
        plant.wait_held("one", "two")

    plant.wait_exact()


def test_the_runners_of_a_stopped_supervisor_release_their_jobs(plant: Installation) -> None:
    one = plant.supervise("one")
    plant.wait_held("one")
    plant.wait_reported()
    with load(plant):
        one.signal(signal.SIGSTOP)
        plant.supervise("two")
        plant.wait_held("two")
        wait_for(
            lambda: one.log("driver").count("lease_expired") >= len(RUNNERS),
            what="the driver and its tasks release their jobs",
            so_far=lambda: one.log("driver"),
        )

    plant.wait_exact()
