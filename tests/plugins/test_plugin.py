"""What Airflow finds of ours by its entry points, and who may see the console in it."""

from pathlib import Path

import pytest

from narthex_plugins.provider import provider_info
from tests.plugins.conftest import Ask

pytestmark = pytest.mark.airflow


def test_the_provider_says_what_it_is() -> None:
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
    assert run["destination"] == "dag_run"
    assert "{RUN_ID}" in run["href"]


def test_the_console_in_airflow_is_closed_without_a_login(ask: Ask) -> None:
    statuses = ask(
        "from fastapi.testclient import TestClient\n"
        "from narthex_plugins.console import app\n"
        "client = TestClient(app)\n"
        "answer = [client.get(p).status_code for p in\n"
        "  ('/console', '/api/v1/datasets', '/api/v1/jobs', '/api/v1/metrics')]"
    )

    assert statuses == [401, 401, 401, 401]


def test_the_console_in_airflow_only_reads(ask: Ask) -> None:
    methods = ask(
        "from narthex_plugins.console import app\n"
        "answer = sorted({m for r in app.routes if r.path.startswith(('/console', '/api'))\n"
        "  for m in r.methods})"
    )

    assert methods == ["GET"]


def test_tasks_hold_no_key_to_the_ledger() -> None:
    room = Path(__file__).resolve().parents[2]
    texts = [p.read_text() for p in (*room.glob("plugins/**/*.py"), *room.glob("dags/*.py"))]

    assert len(texts) >= 8
    assert not [text for text in texts if "ledger_dsn" in text or "LEDGER_DSN" in text]
