"""The DAG `quality_audit` runs: a batch with a broken dataset is red, and loses no other."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narthex.settings import environment_of
from narthex_expectations.server_client import audited_dataset
from tests.plugins.conftest import Ask
from tests.server.audited_sales import arrive, served_sales
from tests.server.conftest import House

pytestmark = [pytest.mark.airflow, pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

MANY = 20
"""With the featureset, more than have a task each: the first is alone, and then two share one."""
BROKEN, BESIDE_BROKEN = "Sales001", "Sales002"
BESIDE_LOST, LOST = "Sales003", "Sales004"

_RUN = """
from airflow.dag_processing.dagbag import DagBag
from airflow.models import TaskInstance
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
dag = DagBag("dags").dags["quality_audit"]
raised = []
dag.task_dict["audit"].partial_kwargs["on_failure_callback"] = [
    lambda context: raised.append(repr(context["exception"]))
]
run = dag.test()
with create_session() as session:
    def of_run(model, **where):
        return session.query(model).filter_by(run_id=run.run_id, **where).all()
    events = (
        session.query(AssetModel.uri, AssetEvent)
        .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        .filter(AssetEvent.source_run_id == run.run_id)
        .all()
    )
    answer = dict(
        state=run.state.value,
        raised=sorted(raised),
        states={
            f"{one.task_id} {one.rendered_map_index or ''}": one.state
            for one in of_run(TaskInstance)
        },
        returned=[
            XComModel.deserialize_value(one)
            for one in of_run(XComModel, task_id="audit", key="return_value")
        ],
        events={uri: [one.source_task_id, one.extra] for uri, one in events},
    )
"""


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """The rows of one dataset are broken, and the history of one is lost."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=MANY) as house:
        arrive(house, BROKEN, [3.0, -4.0, 5.0])
        arrive(house, BESIDE_BROKEN, [1.0, 2.0])
        lost = audited_dataset(house.services.settings, LOST, branch="main")
        shutil.rmtree(lost.history_path)
        yield house


@pytest.fixture(scope="module")
def run(house: House, ask: Ask) -> Any:
    """Run the DAG once by Airflow's own means."""
    return ask(_RUN, **environment_of(house.services.settings))


def test_a_task_is_red_after_its_whole_batch_was_audited(run: Any, house: House) -> None:
    assert run["state"] == "failed"
    assert {name: state for name, state in run["states"].items() if state != "success"} == {
        f"audit {BROKEN} and 1 more": "failed",
        f"audit {BESIDE_LOST} and 1 more": "failed",
    }
    assert run["states"]["audit Sales000"] == "success"
    assert len(run["states"]) == 2 + 11
    audits = house.client.get("/api/v1/audits", params={"limit": 500}).json()["audits"]
    times = [(one["dataset"], one["by"]) for one in audits if one["commit_id"] is None]
    names = [f"Sales{number:03}" for number in range(MANY)]
    assert sorted(times) == sorted(
        [("Sale", "logged")]
        + [(name, by) for name in names if name != LOST for by in ("arrival", "event_time")]
    )


def test_the_error_has_what_is_broken_and_what_did_not_end(run: Any) -> None:
    broken, lost = run["raised"]

    assert broken.startswith("AirflowFailException(")
    assert broken.count(f"critical: {BROKEN}: expect_column_values_to_be_between") == 2
    assert "1 of 3 rows by arrival" in broken
    assert lost.startswith("RuntimeError(")
    assert f"the audit did not end: {LOST}: there is no history at" in lost


def test_each_entry_has_its_own_results_also_in_a_task_that_failed(run: Any) -> None:
    found = {
        one.get("dataset", one.get("featureset")): one for batch in run["returned"] for one in batch
    }

    assert len(found) == MANY + 1
    assert found[BROKEN] == {
        "branch": "main",
        "dataset": BROKEN,
        "success": False,
        "is_critical": True,
        "rows": {"arrival": 3, "event_time": 3},
    }
    assert found[BESIDE_BROKEN]["rows"] == {"arrival": 2, "event_time": 2}
    assert set(found[LOST]) == {"branch", "dataset", "error"}
    assert (found["Sale"]["success"], found["Sale"]["rows"]) == (True, {"logged": 0})


def test_each_sound_dataset_has_an_event_with_its_own_results(run: Any) -> None:
    events = run["events"]

    names = {f"Sales{number:03}" for number in range(MANY)} - {BROKEN, LOST}
    assert set(events) == {f"narthex://main/{name}" for name in names}
    late = {uri for uri, (task, _) in events.items() if task == "announce"}
    assert late == {f"narthex://main/{BESIDE_BROKEN}", f"narthex://main/{BESIDE_LOST}"}
    assert events[f"narthex://main/{BESIDE_BROKEN}"][1] == {
        "event": "audit",
        "success": True,
        "rows": {"arrival": 2, "event_time": 2},
    }


def test_an_installation_without_expectations_has_a_green_run(
    tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str, ask: Ask
) -> None:
    with served_sales(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap, number=0) as house:
        found = ask(_RUN, **environment_of(house.services.settings))

    assert found["state"] == "success"
    assert (found["raised"], found["returned"], found["events"]) == ([], [], {})
