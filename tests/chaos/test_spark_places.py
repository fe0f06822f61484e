"""Spark's log of events shows where tasks ran, and processes in executors are found by name."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from narthex._processes import process_of
from narthex_spark_apps.jobs.application import STANDING_TASKS
from tests.spark_events import NO_TITLE, event_properties, misplaced, tasks_of, where_tasks_ran
from tests.spark_processes import WORKER_DAEMON, find_oldest

QUERY = "pipeline CardVelocity.by_card, live"


def started(*stages: int, title: str) -> str:
    event = {
        "Event": "SparkListenerJobStart",
        "Stage IDs": stages,
        "Properties": {"spark.job.description": title} if title else {},
    }
    return json.dumps(event)


def task(stage: int, place: str) -> str:
    return json.dumps(
        {
            "Event": "SparkListenerTaskStart",
            "Stage ID": stage,
            "Task Info": {"Task ID": 1, "Executor ID": place},
        }
    )


def test_a_task_has_the_title_of_its_job_and_the_place_of_its_executor() -> None:
    lines = [
        started(0, title="standing task index_writer: 3 jobs at its start"),
        started(1, 2, title=f"{QUERY}, epoch 7 (nx_job)\nid = 1\nbatch = 0"),
        started(3, title=""),
        *(task(0, "1"), task(2, "0"), task(3, "driver")),
        '{"Event": "SparkListenerTaskSta',
    ]

    assert list(tasks_of(lines)) == [
        ("standing task index_writer", "1"),
        (QUERY, "0"),
        (NO_TITLE, "driver"),
    ]


def test_the_tasks_of_all_drivers_are_counted(tmp_path: Path) -> None:
    for name in ("app-1", "app-2.inprogress"):
        lines = [started(0, title=f"{QUERY}, epoch 1 (nx)"), task(0, "1"), task(0, "1")]
        (tmp_path / name).write_text("\n".join(lines))

    assert where_tasks_ran(tmp_path) == {QUERY: Counter({"1": 4})}
    assert event_properties(tmp_path)["spark.eventLog.dir"] == f"file://{tmp_path}"


PLACED = {**{f"standing task {name}": Counter({"0": 1}) for name in STANDING_TASKS}}


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({**PLACED, QUERY: Counter({"1": 2})}, []),
        (PLACED, ["no executor ran a query"]),
        (
            {**PLACED, QUERY: Counter({"1": 2, "driver": 1})},
            [f"{QUERY} ran in a driver"],
        ),
        (
            {name: where for name, where in PLACED.items() if "index" not in name}
            | {QUERY: Counter({"1": 2})},
            ["no executor ran standing task index_writer"],
        ),
    ],
    ids=["placed", "no-query", "in-a-driver", "no-task"],
)
def test_work_that_executors_did_not_run_is_named(
    places: dict[str, Counter[str]], expected: list[str]
) -> None:
    assert misplaced(places) == expected


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[..., int]:
    """Return a function that starts a process until the end of the test; it returns its id."""

    def start_process(*arguments: str) -> int:
        child = subprocess.Popen((sys.executable, *arguments), stdin=subprocess.PIPE)
        request.addfinalizer(child.communicate)
        request.addfinalizer(child.kill)
        return child.pid

    return start_process


def test_the_oldest_process_of_a_name_is_found(start: Callable[..., int]) -> None:
    waits = "import sys; sys.stdin.read()"
    one, other = (start("-c", waits, f"narthex.{WORKER_DAEMON}") for _ in range(2))
    mine = process_of(os.getpid())
    members = [process for pid in (other, one) if (process := process_of(pid)) is not None]
    assert mine is not None

    found = find_oldest(WORKER_DAEMON, [mine, *members])

    assert found in members
    assert found.start == min(process.start for process in members)
    assert find_oldest("stage_runner", [mine, *members]) is None
