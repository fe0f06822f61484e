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
from airflow.providers.standard import __version__
manager = ProvidersManager()
hooks = manager.hooks
answer = {
    name: [hooks[name].hook_class_name, hooks[name].package_name, hooks[name].hook_name]
    for name in ("narthex", "narthex_spark")
}
answer["forms"] = {
    name: manager.field_behaviours[name]["relabeling"] for name in ("narthex", "narthex_spark")
}
"""


@pytest.mark.slow
def test_airflow_finds_the_types_of_connections_and_their_forms(ask: Ask) -> None:
    found = ask(_TYPES)

    hooks = "narthex_plugins.hooks"
    assert found["narthex"] == [
        f"{hooks}.narthex_hook.NarthexHook",
        "narthex-airflow",
        "Narthex",
    ]
    assert found["narthex_spark"][0] == f"{hooks}.spark_hook.NarthexSparkHook"
    assert found["forms"]["narthex"]["password"] == "Token"
    assert found["forms"]["narthex_spark"] == {"host": "Master"}


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
from pathlib import Path
from narthex_plugins.hooks.spark_hook import NarthexSparkHook, SparkSubmitFailedError
try:
    NarthexSparkHook().submit(
        Path("job.py"), ["--commit", "7"], name="a backfill", jars=[Path("a.jar"), Path("b.jar")],
        conf={"spark.ui.enabled": "false"},
    )
except SparkSubmitFailedError as error:
    answer = str(error)
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
        (
            {"host": "k8s://https://k8s", "port": 443, "extra": {"namespace": "narthex"}},
            ["--master", "k8s://https://k8s:443", "--conf", "spark.kubernetes.namespace=narthex"],
        ),
    ],
)
def test_the_program_gets_the_master_of_the_connection_and_its_failure_is_shown(
    ask: Ask, tmp_path: Path, connection: dict[str, Any], options: list[str]
) -> None:
    program = tmp_path / "spark-submit"
    program.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\nexit 3\n')
    program.chmod(0o755)

    said = ask(
        _SUBMIT,
        PATH=f"{tmp_path}:/usr/bin:/bin",
        **environment("SPARK_NARTHEX", {"conn_type": "narthex_spark"} | connection),
    )

    failed, *given = said.splitlines()
    assert failed == "`spark-submit` exited with 3; its last lines:"
    more = ["--name", "a backfill", "--jars", "a.jar,b.jar", "--conf", "spark.ui.enabled=false"]
    assert given == [*options, *more, "job.py", "--commit", "7"]


def test_a_missing_program_and_a_missing_master_have_their_remedies(
    ask: Ask, tmp_path: Path
) -> None:
    there = environment("SPARK_NARTHEX", {"conn_type": "narthex_spark", "host": "yarn"})
    (tmp_path / "spark-submit").write_text("#!/bin/sh\n")
    (tmp_path / "spark-submit").chmod(0o755)

    no_program = ask(_SUBMIT, PATH="/nowhere", **there)
    no_master = ask(
        _SUBMIT,
        PATH=str(tmp_path),
        **environment("SPARK_NARTHEX", {"conn_type": "narthex_spark"}),
    )

    assert "install `narthex-platform`" in no_program
    assert "set it to the master" in no_master


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

    assert path == str(ROOT / "plugins" / "narthex_plugins" / "dags")
    assert errors == {}
    assert {"commit", "rollback", "quality_audit", "prove"} <= set(dags)
