"""The DAG `quality_audit` runs: a batch with a broken dataset is red, and loses no other."""

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex.settings import environment_of
from narthex_expectations.server_client import audited_dataset
from tests.plugins.conftest import Ask
from tests.server.audited_sales import arrive, served_sales
from tests.server.conftest import House

pytestmark = [pytest.mark.airflow, pytest.mark.postgres, pytest.mark.kafka]

BROKEN, LOST = "Sales001", "Sales002"
MANY = 22

_RUN = """
import logging, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.models import TaskInstance
from airflow.models.xcom import XComModel
from airflow.models.asset import AssetEvent, AssetModel
from airflow.utils.session import create_session
dag = DagBag("plugins/narthex_plugins/dags").dags["quality_audit"]
run = dag.test()
with create_session() as session:
    tasks = session.query(TaskInstance).filter_by(run_id=run.run_id, dag_id="quality_audit").all()
    returned = session.query(XComModel).filter_by(run_id=run.run_id, task_id="audit").all()
    events = (
        session.query(AssetModel.uri, AssetEvent)
        .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        .filter(AssetEvent.source_run_id == run.run_id)
        .all()
    )
    answer = dict(
        state=str(run.state.value),
        tasks=[
            [one.task_id, one.rendered_map_index, str(one.state.value), one.try_number]
            for one in tasks
        ],
        returned=[XComModel.deserialize_value(one) for one in returned if one.key == "return_value"],
        events=sorted([uri, one.source_task_id, one.extra] for uri, one in events),
    )
"""


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """More datasets than have a task each: the rows of one are broken, the history of one lost."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=MANY) as house:
        arrive(house, "Sales000", [1.0, 2.0])
        arrive(house, BROKEN, [3.0, -4.0, 5.0])
        arrive(house, LOST, [6.0])
        lost = audited_dataset(house.services.settings, LOST, branch="main")
        shutil.rmtree(lost.history_path)
        yield house


def test_a(house: House, ask: Ask) -> None:
    found = ask(_RUN, **environment_of(house.services.settings))
    print(json.dumps(found, indent=1))
    assert 0
