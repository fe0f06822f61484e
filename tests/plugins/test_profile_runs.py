"""The DAG `profile` runs: a dataset that cannot be read is named, and keeps no other from it."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from narthex.settings import environment_of
from narthex_expectations.server_client import audited_dataset
from tests.plugins.conftest import Ask
from tests.server.audited_sales import arrive, served_sales
from tests.server.conftest import House

pytestmark = [pytest.mark.airflow, pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

MANY = 5
"""More than have a task each, as there are at most two: the second has the last three."""
BEFORE_LOST, LOST, PROPOSED = "Sales002", "Sales003", "Sales004"

_RUN = """
import functools
import logging
from airflow.dag_processing.dagbag import DagBag
from airflow.models import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from narthex_plugins import profiling
# With 21 datasets and at most twenty tasks, the run would take minutes.
profiling.in_batches = functools.partial(profiling.in_batches, most=2)
dag = DagBag("dags").dags["profile"]
raised, logged = [], []
propose = dag.task_dict["propose"]
# A second try, after a minute, would say the same.
propose.partial_kwargs["retries"] = 0
propose.partial_kwargs["on_failure_callback"] = [
    lambda context: raised.append(repr(context["exception"]))
]

class Lines(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())

profiling.log.addHandler(Lines())
profiling.log.setLevel(logging.INFO)
run = dag.test()
with create_session() as session:
    def of_run(model, **where):
        return session.query(model).filter_by(run_id=run.run_id, **where).all()
    answer = dict(
        state=run.state.value,
        raised=raised,
        logged=logged,
        states={
            one.rendered_map_index: one.state for one in of_run(TaskInstance, task_id="propose")
        },
        returned=[
            XComModel.deserialize_value(one)
            for one in of_run(XComModel, task_id="propose", key="return_value")
        ],
    )
"""


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """Something can be proposed for one dataset, and the history of one is lost."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(
        home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=MANY, has_expectations=False
    ) as house:
        arrive(house, PROPOSED, [float(n) for n in range(40)])
        lost = audited_dataset(house.services.settings, LOST, branch="main")
        shutil.rmtree(lost.history_path)
        yield house


@pytest.fixture(scope="module")
def run(house: House, ask: Ask) -> Any:
    """Run the DAG once by Airflow's own means."""
    return ask(_RUN, **environment_of(house.services.settings))


def test_more_datasets_than_tasks_are_profiled_in_batches(run: Any) -> None:
    assert run["state"] == "failed"
    assert run["states"] == {
        "Sales000 and 1 more": "success",
        f"{BEFORE_LOST} and 2 more": "failed",
    }
    found = {one["dataset"]: one for batch in run["returned"] for one in batch}
    assert set(found) == {f"Sales{number:03}" for number in range(MANY)}
    assert found[PROPOSED] == {"branch": "main", "dataset": PROPOSED, "expectations": 3}
    assert found[BEFORE_LOST] == {"branch": "main", "dataset": BEFORE_LOST, "expectations": 0}
    assert set(found[LOST]) == {"branch", "dataset", "error"}


def test_the_error_names_the_dataset_that_could_not_be_read(run: Any) -> None:
    (raised,) = run["raised"]

    assert raised.startswith("RuntimeError(")
    assert f"nothing was proposed: {LOST}: there is no history at" in raised
    assert BEFORE_LOST not in raised


def test_a_proposal_is_in_the_log_of_its_task(run: Any) -> None:
    lines = run["logged"]

    of_dataset = f"{PROPOSED}: 3 expectations, from 40 rows of its history; 40 rows meet them"
    at = lines.index(of_dataset)
    assert "expect_column_values_to_be_between('amount', min_value=0.0, max_value=59.0)," in (
        line.strip() for line in lines[at:]
    )
    assert any(line.startswith(f"{LOST}: nothing was proposed: there is no") for line in lines)
