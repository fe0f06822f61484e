"""The blocks of the guides that are about Airflow's own command line do what they say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides.pages import DOCS, Block, blocks, pages_with, place
from tests.plugins.conftest import RUN_S, Ask
from tests.server.tracing.collector import collecting
from tests.shared_services import airflow_environment

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

GUIDE = DOCS / "guide"

_CONNECTION = """
import os
from airflow.models import Connection
from airflow.utils.session import create_session
from narthex_plugins.platform_client import platform
with create_session() as session:
    found = session.query(Connection).filter_by(conn_id="narthex_default").one()
    os.environ["AIRFLOW_CONN_NARTHEX_DEFAULT"] = found.as_json()
answer = [platform().url("commits"), platform().headers]
"""
"""Take the connection out of the database, and hand it to a hook as a task gets it."""

_INTERVALS = """
from airflow.models import DagRun
from airflow.utils.session import create_session
with create_session() as session:
    answer = [
        [run.dag_id, run.run_type, run.data_interval_start.isoformat(),
         run.data_interval_end.isoformat()]
        for run in session.query(DagRun).order_by(DagRun.logical_date)
    ]
"""

_SPAN = """
import airflow.settings
from opentelemetry import trace
with trace.get_tracer("tests").start_as_current_span("a task"):
    pass
getattr(trace.get_tracer_provider(), "shutdown", lambda: None)()
"""
"""Begin a span as Airflow does, with the provider that it has configured."""


@pytest.fixture
def home(airflow_home: Path, tmp_path: Path) -> Path:
    """A home with a copy of the migrated database."""
    (tmp_path / "plugins").mkdir()
    shutil.copy(airflow_home / "airflow.db", tmp_path)
    return tmp_path


def typed(home: Path, *lines: str, **more: str) -> str:
    """Type lines into a shell of an Airflow; return what is printed."""
    done = subprocess.run(
        ["bash", "-e"],
        input="\n".join((f'PATH="{Path(sys.executable).parent}:$PATH"', *lines)),
        env=airflow_environment(home) | more,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def database(home: Path) -> dict[str, str]:
    """Return the variables of an Airflow with this home."""
    return {
        name: value
        for name, value in airflow_environment(home).items()
        if name in {"AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"}
    }


def the_block(page: str) -> Block:
    (block,) = blocks(GUIDE / page, "sh airflow")
    return block


def test_the_connection_on_airflow_is_that_of_a_hook(ask: Ask, home: Path, tmp_path: Path) -> None:
    typed(home, the_block("airflow.md").text, TOKEN="a-token-of-tests")

    url, headers = ask(_CONNECTION, NARTHEX_HOME=str(tmp_path), **database(home))

    assert url == "https://narthex.example.org:8400/api/v1/commits"
    assert headers == {"Authorization": "Bearer a-token-of-tests"}


def test_the_backfill_on_quality_has_a_run_of_each_hour_of_the_day(ask: Ask, home: Path) -> None:
    typed(home, "airflow dags reserialize", the_block("quality.md").text)

    runs = ask(_INTERVALS, **database(home))

    hours = [f"2026-05-01T{hour:02}:00:00+00:00" for hour in range(24)]
    ends = [*hours[1:], "2026-05-02T00:00:00+00:00"]
    assert runs == [
        ["quality_audit", "backfill", start, end] for start, end in zip(hours, ends, strict=True)
    ]


def test_the_variable_on_traces_makes_airflow_send_spans(home: Path) -> None:
    code = f"python -c '{_SPAN}'"
    with collecting() as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        typed(home, code, **endpoint)
        before = list(collector.spans)
        typed(home, the_block("tracing.md").text, code, **endpoint)

    assert before == []
    assert [one.name for one in collector.spans] == ["a task"]


RUN_BY = {
    "docs/guide/airflow.md": test_the_connection_on_airflow_is_that_of_a_hook,
    "docs/guide/quality.md": test_the_backfill_on_quality_has_a_run_of_each_hour_of_the_day,
    "docs/guide/tracing.md": test_the_variable_on_traces_makes_airflow_send_spans,
}


def test_every_page_with_such_commands_is_run() -> None:
    assert {place(page) for page in pages_with("sh airflow")} == RUN_BY.keys()
