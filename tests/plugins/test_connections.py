"""The types of connections, and what their hooks do with the connections of Airflow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import ROOT, Ask

pytestmark = pytest.mark.airflow

CONNECTION = {
    "conn_type": "narthex",
    "host": "127.0.0.1",
    "port": 1,
    "schema": "http",
    "password": "a-token-of-tests",
}


def environment(name: str, connection: dict[str, Any]) -> dict[str, str]:
    return {f"AIRFLOW_CONN_{name}": json.dumps(connection)}


_TYPES = """
from airflow.providers_manager import ProvidersManager
manager = ProvidersManager()
hooks = manager.hooks
answer = {
    name: [hooks[name].hook_class_name, hooks[name].package_name, hooks[name].hook_name]
    for name in ("narthex", "spark")
}
answer["form"] = manager.field_behaviours["narthex"]["relabeling"]
"""


@pytest.mark.slow
def test_airflow_finds_the_types_of_connections_and_their_forms(ask: Ask) -> None:
    found = ask(_TYPES)

    assert found["narthex"] == [
        "narthex_plugins.hooks.narthex_hook.NarthexHook",
        "narthex",
        "Narthex",
    ]
    assert found["spark"][1] == "apache-airflow-providers-apache-spark"
    assert found["form"]["password"] == "Token"


_METADATA = """
import importlib.resources, json, jsonschema
from narthex_plugins.provider import provider_info
schema = json.loads(
    importlib.resources.files("airflow").joinpath("provider_info.schema.json").read_text()
)
jsonschema.validate(provider_info(), schema)
import sys
answer = [name for name in sys.modules if name.startswith("narthex.") or "_hook" in name]
"""


def test_the_provider_metadata_is_valid_and_imports_no_hook(ask: Ask) -> None:
    assert [name for name in ask(_METADATA) if "narthex" in name] == []


_PLATFORM = """
import asyncio
from narthex_plugins.platform_client import platform, platform_of_loop
from narthex.settings import NotInstalledError
def described(found):
    return [found.url("commits"), found.headers]
try:
    answer = [described(platform()), described(asyncio.run(platform_of_loop()))]
except NotInstalledError as error:
    answer = str(error)
"""


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        (CONNECTION, "http://127.0.0.1:1/api/v1/commits"),
        (
            CONNECTION | {"host": "https://n.example", "port": None},
            "https://n.example/api/v1/commits",
        ),
        (CONNECTION | {"schema": "https", "port": None}, "https://127.0.0.1:8400/api/v1/commits"),
    ],
)
def test_tasks_without_settings_call_the_server_of_the_connection(
    ask: Ask, tmp_path: Path, connection: dict[str, Any], url: str
) -> None:
    found = ask(_PLATFORM, NARTHEX_HOME=str(tmp_path), **environment("NARTHEX_DEFAULT", connection))

    assert found == [[url, {"Authorization": "Bearer a-token-of-tests"}]] * 2


def test_tasks_without_settings_and_connection_name_the_connection(
    ask: Ask, tmp_path: Path
) -> None:
    found = ask(_PLATFORM, NARTHEX_HOME=str(tmp_path))

    assert "no connection `narthex_default`" in found
    assert "role `dags`" in found


_TRY = """
from narthex_plugins.hooks.narthex_hook import NarthexHook
answer = NarthexHook().test_connection()
"""


def test_a_connection_to_nothing_is_reported_and_not_raised(ask: Ask) -> None:
    succeeded, text = ask(_TRY, **environment("NARTHEX_DEFAULT", CONNECTION))

    assert not succeeded
    assert "127.0.0.1:1" in text


_SUBMIT = """
from narthex_plugins.operators import BackfillOperator
task = BackfillOperator(task_id="backfill", commit_id="7", dataset=None, jars="a.jar,b.jar")
try:
    answer = task.submit({})
except Exception as error:
    answer = [type(error).__name__, str(error)]
"""


@pytest.mark.parametrize(
    ("connection", "options"),
    [
        ({"host": "local[2]"}, ["--master", "local[2]"]),
        ({"host": "spark://spark", "port": 7077}, ["--master", "spark://spark:7077"]),
        (
            {"host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "night"}},
            ["--master", "yarn", "--deploy-mode", "cluster", "--queue", "night"],
        ),
    ],
)
def test_the_provider_runs_the_backfill_on_the_master_of_the_connection(
    ask: Ask, tmp_path: Path, connection: dict[str, Any], options: list[str]
) -> None:
    program, given = tmp_path / "spark-submit", tmp_path / "given"
    program.write_text(f'#!/bin/sh\nfor one in "$@"; do echo "$one" >> {given}; done\nexit 3\n')
    program.chmod(0o755)

    failed, text = ask(
        _SUBMIT,
        PATH=f"{tmp_path}:/usr/bin:/bin",
        **environment("SPARK_NARTHEX", {"conn_type": "spark"} | connection),
    )

    assert failed == "AirflowException"
    assert "Error code is: 3" in text
    lines = given.read_text().splitlines()
    at = lines.index("--master")
    assert lines[at : at + 2] == options[:2]
    assert set(options) <= set(lines)
    assert lines[lines.index("--jars") :][:2] == ["--jars", "a.jar,b.jar"]
    assert lines[-2:] == ["--commit", "7"]
    assert Path(lines[-3]).name == "run_job.py"


@pytest.mark.parametrize(
    ("path", "connection", "remedy"),
    [
        ("/nowhere", {"host": "yarn"}, "install `narthex[platform]` on the workers"),
        ("/usr/bin", {}, "has no host; set it to the master"),
        ("/usr/bin", None, "The conn_id `spark_narthex` isn't defined"),
    ],
)
def test_a_missing_program_connection_or_master_has_its_remedy(
    ask: Ask, path: str, connection: dict[str, str] | None, remedy: str
) -> None:
    there = (
        {}
        if connection is None
        else environment("SPARK_NARTHEX", {"conn_type": "spark"} | connection)
    )

    _, text = ask(_SUBMIT, PATH=path, **there)

    assert remedy in text


_OVERWRITTEN = """
import sys
sys.path.insert(0, {packages!r})
from narthex_plugins.operators import BackfillOperator
try:
    BackfillOperator(task_id="backfill", commit_id="7", dataset=None).submit({{}})
except Exception as error:
    answer = [type(error).__name__, str(error)]
"""


def test_a_package_that_overwrites_pyspark_is_refused_with_the_remedy(
    ask: Ask, tmp_path: Path
) -> None:
    described = tmp_path / "pyspark_client-4.2.0.dist-info" / "METADATA"
    described.parent.mkdir()
    described.write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.2.0\n")

    failed, text = ask(_OVERWRITTEN.format(packages=str(tmp_path)))

    assert failed == "AirflowFailException"
    assert "`pip uninstall --yes pyspark-client" in text
    assert "'apache-airflow-providers-apache-spark>=5.3,<6'" in text


_BUNDLE = """
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
bundle = DagBundlesManager().get_bundle("narthex")
bundle.initialize()
bag = DagBag(bundle.path)
answer = [str(bundle.path), sorted(bag.dags), dict(bag.import_errors)]
"""


@pytest.mark.slow
def test_an_existing_airflow_has_the_dags_by_a_bundle(ask: Ask) -> None:
    page = (ROOT / "docs" / "guide" / "airflow.md").read_text(encoding="utf-8")
    documented = page.partition("dag_bundle_config_list = ")[2].partition("```")[0]

    path, dags, errors = ask(
        _BUNDLE, AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=documented.strip()
    )

    assert path == str(ROOT / "dags")
    assert errors == {}
    assert {"commit", "rollback", "quality_audit", "prove"} <= set(dags)
