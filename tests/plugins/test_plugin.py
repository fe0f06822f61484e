"""The plugins that Airflow finds by entry points, and access to the console in Airflow."""

from pathlib import Path

import pytest

from narthex_plugins.provider import provider_info
from tests.plugins.conftest import Ask

pytestmark = pytest.mark.airflow


def test_the_provider_has_its_metadata() -> None:
    found = provider_info()

    assert found["package-name"] == "narthex"
    assert found["versions"] == ["0.1.0"]
    assert found["name"]
    assert found["description"]


def test_airflow_lists_the_provider(ask: Ask) -> None:
    versions = ask(
        "from airflow.providers_manager import ProvidersManager\n"
        "answer = {name: p.version for name, p in ProvidersManager().providers.items()}"
    )

    assert versions["narthex"] == "0.1.0"


def test_airflow_loads_the_plugin_with_its_pages(ask: Ask) -> None:
    found = ask(
        "from airflow import plugins_manager\n"
        "plugins, errors = plugins_manager._get_plugins()\n"
        "mine = [p for p in plugins if p.name == 'narthex']\n"
        "answer = {'errors': errors, 'views': [list(p.external_views) for p in mine],\n"
        "  'apps': [[a['url_prefix'] for a in p.fastapi_apps] for p in mine]}"
    )

    assert found["errors"] == {}
    ((nav, run),) = found["views"]
    assert found["apps"] == [["/narthex"]]
    assert (nav["destination"], nav["url_route"], nav["href"]) == (
        "nav",
        "narthex",
        "/narthex/console",
    )
    assert (run["destination"], run["href"]) == ("dag_run", "/narthex/runs/{DAG_ID}/{RUN_ID}")


def test_the_console_in_airflow_is_closed_without_a_login(ask: Ask) -> None:
    statuses = ask(
        "from fastapi.testclient import TestClient\n"
        "from narthex_plugins.console import app\n"
        "client = TestClient(app)\n"
        "answer = [client.get(p).status_code for p in\n"
        "  ('/console', '/console/commits/1', '/console/console.css', '/api/v1/datasets',\n"
        "   '/api/v1/jobs', '/api/v1/metrics', '/runs/commit/1', '/openapi.json')]"
    )

    assert statuses == [401] * 7 + [404]


def test_the_console_in_airflow_only_reads(ask: Ask) -> None:
    methods = ask(
        "from narthex_plugins.console import app\n"
        "answer = sorted({m for r in app.routes for m in r.methods})"
    )

    assert methods == ["GET"]


_AS_ROLES = """
from airflow.api_fastapi.app import get_auth_manager, init_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.testclient import TestClient
from narthex_plugins.console import app
init_auth_manager()
client = TestClient(app)
def look(role, path):
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ada", role=role))
    answer = client.get(path, cookies={"_token": token}, follow_redirects=False)
    return [answer.status_code, answer.headers.get("location")]
run = "11111111-1111-8111-8111-111111111111"
answer = {
    "nobody": look(None, f"/runs/commit/{run}"),
    "viewer": look("viewer", f"/runs/commit/{run}"),
    "other": look("viewer", "/runs/quality_audit/scheduled__2026"),
    "unlisted": look("viewer", "/runs/recovery_drill/scheduled__2026"),
    "odd": look("viewer", "/runs/commit/..%2f..%2fevil"),
    "down": look("viewer", "/console"),
}
"""


@pytest.mark.slow
def test_readers_of_the_dag_in_airflow_may_read_the_console(ask: Ask, tmp_path: Path) -> None:
    found = ask(
        _AS_ROLES,
        AIRFLOW__API_AUTH__JWT_SECRET="x" * 64,
        **{f"NARTHEX_{name}": value for name, value in nowhere(tmp_path).items()},
    )

    page = "../../console/commits/11111111-1111-8111-8111-111111111111?live=1"
    assert found["nobody"] == [403, None]
    assert found["viewer"] == [303, page]
    assert found["other"] == [303, "../../console/audits?live=1"]
    assert found["unlisted"] == [303, "../../console/commits?live=1"]
    assert found["odd"][0] == 404
    assert found["down"] == [502, None]


def nowhere(home: Path) -> dict[str, str]:
    """Describe a platform that does not answer."""
    names = ("HOME", "INDEX_DIR", "HISTORY_DIR", "CHECKPOINT_DIR", "FILES_ROOT", "JARS_DIR")
    return dict.fromkeys(names, str(home)) | {
        "INSTALL_ID": "tests000",
        "LEDGER_DSN": "postgresql+psycopg2://127.0.0.1:1/none",
        "KAFKA": "127.0.0.1:1",
        "SERVER_URL": "http://127.0.0.1:1",
        "TOKEN": "a-token-of-tests",
    }


_LINKS = """
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.models.taskinstancekey import TaskInstanceKey
bag = DagBag("dags")
def links(name):
    dag = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags[name]))
    for task in dag.tasks:
        key = TaskInstanceKey(name, task.task_id, "manual__1+00:00", 1, -1)
        for link in task.extra_links:
            yield task.task_id, link, task.operator_extra_link_dict[link].get_link(task, ti_key=key)
answer = {name: list(links(name)) for name in ("commit", "prove", "quality_audit")}
"""


@pytest.mark.slow
def test_tasks_link_to_what_they_do_in_the_console_and_to_the_data_docs(ask: Ask) -> None:
    found = ask(_LINKS, AIRFLOW__API__BASE_URL="https://airflow.example/flow/")

    page = "https://airflow.example/flow/narthex/runs/commit/manual__1%2B00%3A00"
    tasks = (
        "approve",
        "backfill",
        "caught_up",
        "commit_point",
        "compile",
        "create_assets",
        "plan",
        "promote",
        "quality",
        "quality_checks",
        "roll_back",
    )
    assert sorted(map(tuple, found["commit"])) == [(task, "Console", page) for task in tasks]
    proved = {"compare", "branches_with_features", "repeat_answers", "served_datasets"}
    assert {(task, link) for task, link, _ in found["prove"]} == {
        (one, "Console") for one in proved
    }
    docs = "https://airflow.example/flow/narthex/console/data-docs/index.html"
    audits = ("announce", "audit", "with_expectations")
    assert sorted(one for one in map(tuple, found["quality_audit"]) if one[1] == "Data Docs") == [
        (task, "Data Docs", docs) for task in audits
    ]


_DECIDED = """
from narthex_plugins.approvals import PersonApproves
task = PersonApproves(task_id="approve", commit_id="c1")
def outcome(**approval):
    try:
        task._end_without_a_question({"approval": approval})
    except Exception as error:
        return [type(error).__name__, str(error)]
    return "succeeds"
rejected = {"by": "grace", "at": "", "reason": ""}
answer = {
    "approved": outcome(by="grace", rejected=None),
    "rejected": outcome(by=None, rejected=rejected),
    "needless": outcome(by=None, rejected=None),
    "older": outcome(by=None),
}
"""


def test_a_run_ends_as_a_person_has_decided_before_it_asked(ask: Ask) -> None:
    found = ask(_DECIDED)

    needless = ["AirflowSkipException", "commits of this branch need no approval"]
    assert found == {
        "approved": "succeeds",
        "rejected": ["AirflowFailException", "grace has rejected the commit"],
        "needless": needless,
        "older": needless,
    }


def test_tasks_hold_no_key_to_the_ledger() -> None:
    room = Path(__file__).resolve().parents[2]
    texts = [p.read_text() for p in room.glob("plugins/**/*.py")]

    assert len(texts) >= 8
    assert not [text for text in texts if "ledger_dsn" in text or "LEDGER_DSN" in text]
