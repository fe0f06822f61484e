"""Standing tasks on the executors of a cluster: whatever is killed, the totals are exact."""

import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from narthex._processes import Process, load_process, send_signal
from narthex_spark_apps.jobs.application import INDEX_WRITER, STAGE_RUNNER, STANDING_TASKS
from tests.server.conftest import house_at, settings_at
from tests.spark_cluster import SparkCluster
from tests.supervision.plant import Installation, wait_for
from tests.supervision.test_supervisors import load

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

ONE = "one"


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
    module_ledger_dsn: str,
    kafka_bootstrap: str,
    connector_jars: Path,
    spark_cluster: SparkCluster,
) -> Iterator[Installation]:
    """Run a shop whose jobs run on the cluster, and let readers see it."""
    home = tmp_path_factory.mktemp("plant")
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap),
        install_id="cluster1",
        jars_dir=connector_jars,
    )
    with house_at(spark_cluster.use(settings)) as house:
        plant = Installation.opened(house)
        try:
            plant.supervise(ONE)
            plant.wait_served()
            yield plant
        finally:
            plant.end()


@pytest.fixture
def plant(served: Installation) -> Installation:
    """Return the shop, whose supervisor goes on from test to test."""
    return served


def wait_replaced(cluster: SparkCluster, name: str, killed: Process) -> None:
    """Wait until the executors run a standing task again, in another process."""

    def is_replaced() -> bool:
        return bool(found := cluster.find(name)) and killed not in found

    wait_for(is_replaced, what=f"{name} is replaced", so_far=lambda: cluster.find(name))


def test_each_standing_task_runs_in_an_executor(
    plant: Installation, spark_cluster: SparkCluster
) -> None:
    plant.order(len(plant.sent))
    plant.wait_exact()

    assert {name: len(spark_cluster.find(name)) for name in STANDING_TASKS} == dict.fromkeys(
        STANDING_TASKS, 1
    )
    assert "task_started" in plant.supervisors[ONE].log("driver")


@pytest.mark.parametrize("name", [STAGE_RUNNER, INDEX_WRITER])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_stopped_is_replaced_and_nothing_is_lost(
    plant: Installation, spark_cluster: SparkCluster, name: str, number: signal.Signals
) -> None:
    (worker,) = spark_cluster.find(name)
    with load(plant):
        send_signal(worker, number)
        wait_replaced(spark_cluster, name, worker)

    plant.wait_exact()


def test_an_executor_that_is_killed_is_replaced_and_nothing_is_lost(
    plant: Installation, spark_cluster: SparkCluster
) -> None:
    (task,) = spark_cluster.find(STAGE_RUNNER)
    (worker,) = (
        name
        for name in spark_cluster.workers
        if task in spark_cluster.find_processes(name, STAGE_RUNNER)
    )
    (executor,) = spark_cluster.find_processes(worker, "java")
    with load(plant):
        send_signal(executor, signal.SIGKILL)
        wait_replaced(spark_cluster, STAGE_RUNNER, task)

    plant.wait_exact()


def test_a_worker_of_the_cluster_that_is_killed_is_not_needed(
    plant: Installation, spark_cluster: SparkCluster
) -> None:
    (task,) = spark_cluster.find(INDEX_WRITER)
    (worker,) = (
        name
        for name in spark_cluster.workers
        if task in spark_cluster.find_processes(name, INDEX_WRITER)
    )
    with load(plant):
        spark_cluster.kill_worker(worker)
        wait_replaced(spark_cluster, INDEX_WRITER, task)

    plant.wait_exact()
    spark_cluster.start_worker(f"{worker}_again")


def test_a_driver_that_is_killed_is_replaced_under_new_epochs(
    plant: Installation, spark_cluster: SparkCluster
) -> None:
    before = {slot.slot: slot.epoch for slot in plant.house.ledger.slots.all()}
    (task,) = spark_cluster.find(STAGE_RUNNER)
    with load(plant):
        send_signal(plant.supervisors[ONE].driver, signal.SIGKILL)
        wait_replaced(spark_cluster, STAGE_RUNNER, task)

    plant.wait_exact()
    after = {slot.slot: slot.epoch for slot in plant.house.ledger.slots.all()}
    assert all(after[slot] > epoch for slot, epoch in before.items())


def test_a_driver_that_the_master_has_forgotten_is_replaced(
    plant: Installation, spark_cluster: SparkCluster
) -> None:
    one = plant.supervisors[ONE]
    driver = one.driver
    with load(plant):
        spark_cluster.forget()
        # A worker that has not noticed yet may take the tasks of the other one over first.
        wait_for(
            lambda: load_process(one.pid_path) not in {None, driver},
            what="the driver is replaced",
            so_far=lambda: one.log("driver")[-500:],
        )

    plant.wait_exact()
    assert "the application has had no executor for" in one.log("driver")
