"""A person's path from `pip install` to an answer, without a checkout."""

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from tests.guides.pages import DOCS, blocks
from tests.wheels.conftest import Environment, Pip, install, lines_of_readme

pytestmark = pytest.mark.wheels

MORE = """


from narthex.connectors import CSV, Files

archive = Files(name="archive")


@source(archive.path("visits.csv", format=CSV()), disorder="1d", cdc="append")
@dataset
class Visits:
    page: str
    visited_at: datetime = field(timestamp=True)


@dataset(index=True)
class Pages:
    page: str = field(key=True)
    visits: int
    visited_at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Visits)
    def by_page(cls, visits: Rows) -> Rows:
        return visits.groupby("page").aggregate(visits=Count(window=Continuous("forever")))


@featureset
class Page:
    page: str
    visits: int = feature(Pages.visits, default=0)
"""
"""Definitions that the project has beside those of `narthex init`: rows of a file."""


@pytest.mark.usefixtures("wheel")
def test_an_author_needs_no_extra(tmp_path: Path) -> None:
    _, authors, _, _ = lines_of_readme()
    author = install(tmp_path, authors, by=Pip.PIP, more=["pytest"])

    author.run("narthex", "init")
    sound = author.run("narthex", "check")
    broken = author.run("narthex", "up", code=2)
    listed = author.run("narthex", "--help").stdout
    unit_tests = author.run("python", "-m", "pytest", "-q", "tests")

    assert "Traceback" not in sound.stderr
    assert "`pip install 'narthex[platform]'`" in " ".join(broken.stderr.split())
    assert "  check" in listed
    assert "  supervisor" not in listed
    assert re.search(r"^[1-9]\d* passed", unit_tests.stdout, re.MULTILINE)
    packages = {path.name for path in author.bin.parent.glob("lib/python*/site-packages/*")}
    assert not packages & {"pyspark", "airflow", "sqlalchemy", "confluent_kafka", "fastapi"}


_PROVIDED = """
from airflow.providers_manager import ProvidersManager
from narthex_plugins.dag_bundle import NarthexDagBundle
hooks = ProvidersManager().hooks
print(*sorted(name for name in hooks if name in ("narthex", "spark")))
print(hooks["spark"].package_name)
print(*sorted(path.stem for path in NarthexDagBundle(name="narthex").path.glob("[a-z]*.py")))
"""

_SUBMIT = """
from narthex_plugins.operators import BackfillOperator
BackfillOperator(task_id="backfill", commit_id="7", dataset=None).submit({})
"""


@pytest.mark.usefixtures("wheel")
def test_an_airflow_gets_dags_and_the_provider_and_no_platform(tmp_path: Path) -> None:
    *_, of_readme = lines_of_readme()
    (of_page,) = blocks(DOCS / "guide" / "airflow.md", "sh wheels")
    assert of_readme.split()[:3] == of_page.text.split()
    environment = install(tmp_path, of_readme)

    kinds, provider, dags = environment.run(
        "python", "-W", "ignore", "-c", _PROVIDED
    ).stdout.splitlines()

    assert (kinds, provider) == ("narthex spark", "apache-airflow-providers-apache-spark")
    assert {"commit", "rollback", "quality_audit"} <= {*dags.split()}
    packages = {path.name for path in environment.bin.parent.glob("lib/python*/site-packages/*")}
    assert {"narthex", "narthex_plugins", "airflow", "pyspark"} <= packages
    assert not packages & {"great_expectations", "confluent_kafka", "deltalake"}

    refused = environment.installs("apache-airflow-providers-apache-spark>=6", "narthex[airflow]")
    assert "unsatisfiable" in refused
    assert environment.installs("apache-airflow-providers-apache-spark>=6") == ""
    overwritten = environment.run("python", "-W", "ignore", "-c", _SUBMIT, code=1)
    assert "`pip uninstall --yes pyspark-client" in overwritten.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Iterator[Environment]:
    """The whole platform in an environment of its own; its services end with the module."""
    assert wheel.is_file()
    _, _, platform, _ = lines_of_readme()
    environment = install(tmp_path_factory.mktemp("person"), platform, more=["pytest"])
    yield environment
    environment.run("narthex", "down", "--wipe", code=None)


VISITS = 1_100
"""The rows of the file."""

CONFIG = 'driver_backfill_rows = "1000"\n'
"""So few rows are backfilled by a driver of live jobs: for more, Airflow starts a Spark."""

PAGES = 10


def write_visits(directory: Path) -> None:
    began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    with (directory / "visits.csv").open("w") as file:
        file.write("page,visited_at\n")
        for number in range(VISITS):
            visited_at = began + dt.timedelta(seconds=number)
            file.write(f"p{number % PAGES},{visited_at.isoformat()}\n")


class _Airflow:
    """The Airflow that `narthex up` has started, as its admin sees it."""

    def __init__(self, home: Path) -> None:
        found = json.loads((home / "services.json").read_text())
        self._url = found["airflow_url"]
        account = {"username": found["airflow_user"], "password": found["airflow_password"]}
        token = httpx.post(f"{self._url}/auth/token", json=account, timeout=30.0).json()
        self._headers = {"authorization": f"Bearer {token['access_token']}"}

    def read(self, path: str) -> Any:
        answer = httpx.get(f"{self._url}/{path}", headers=self._headers, timeout=60.0)
        assert answer.is_success, answer.text
        return answer.json()


@pytest.mark.stack
def test_a_platform_runs_from_the_wheel(installed: Environment) -> None:
    installed.run("narthex", "init")
    with (installed.directory / "features.py").open("a") as file:
        file.write(MORE)
    write_visits(installed.directory)
    installed.run("narthex", "check")
    installed.run("python", "-m", "pytest", "-q", "tests")

    home = installed.directory / ".narthex"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG)
    installed.run("narthex", "up", within_s=600.0)
    installed.run("narthex", "commit", "--message", "spend", within_s=600.0)
    row = {"user_id": 7, "amount": 12.5, "paid_at": dt.datetime.now(dt.UTC).isoformat()}
    installed.run("narthex", "log", "shop", "payments", "--wait", text=json.dumps(row))

    assert answer_of(installed, "Shopper", "user_id", "7") == {
        "Shopper.user_id": [7],
        "Shopper.spent_1d": [12.5],
        "Shopper.payments_1d": [1],
        "Shopper.payments_ever": [1],
        "Shopper.is_new": [True],
    }
    assert answer_of(installed, "Page", "page", "p1")["Page.visits"] == [VISITS // PAGES]


def answer_of(installed: Environment, featureset: str, name: str, value: str) -> Any:
    given = f"{featureset}.{name}={value}"
    done = installed.run("narthex", "query", featureset, "--with", given, "--json")
    return json.loads(done.stdout)["answers"]


@pytest.mark.stack
def test_airflow_of_the_wheels_has_its_dags_and_types_of_connections(
    installed: Environment,
) -> None:
    airflow = _Airflow(installed.directory / ".narthex")

    dags = airflow.read("api/v2/dags?tags=narthex&limit=50")["dags"]
    (run,) = airflow.read("api/v2/dags/commit/dagRuns")["dag_runs"]
    logs = f"api/v2/dags/commit/dagRuns/{run['dag_run_id']}/taskInstances/backfill/logs/1"
    types = airflow.read("ui/connections/hook_meta")

    installed_in = {Path(dag["fileloc"]).parent for dag in dags}
    assert {dag["dag_id"] for dag in dags} >= {"commit", "quality_audit", "prove"}
    assert [place for place in installed_in if not place.is_relative_to(installed.directory)] == []
    assert run["state"] in {"running", "success"}
    assert '"jobs": [{' in json.dumps(airflow.read(f"{logs}?map_index=0")).replace("\\", "")
    assert {"narthex", "spark"} <= {one["connection_type"] for one in types}


_TRY = """
import os, sys
os.environ["AIRFLOW_CONN_NARTHEX_DEFAULT"] = sys.argv[1]
from narthex_plugins.hooks.narthex_hook import NarthexHook
print(*NarthexHook().test_connection())
"""


@pytest.mark.stack
@pytest.mark.parametrize(
    ("token", "answer"),
    [("dags_token", "True the server answers and accepts"), ("kafka", "False [NX952]")],
)
def test_a_connection_of_airflow_reaches_the_platform(
    installed: Environment, token: str, answer: str
) -> None:
    settings = json.loads((installed.directory / ".narthex" / "services.json").read_text())
    connection = {
        "conn_type": "narthex",
        "host": settings["server_url"],
        "password": settings[token],
    }

    done = installed.run("python", "-W", "ignore", "-c", _TRY, json.dumps(connection))

    assert answer in done.stdout


@pytest.fixture(scope="module")
def restored(installed: Environment) -> Iterator[Environment]:
    """The platform in a new home, restored from its backup by the lines of the page."""
    made = installed.run("narthex", "backup", "copy", "--json", within_s=600.0)
    (page,) = blocks(DOCS / "guide" / "upgrading.md", "sh wheels")
    home = installed.directory / "new-home"
    restored = attrs.evolve(installed, home=home)
    assert json.loads(made.stdout)["files"].keys() == {"state.tar", "keys.tar"}
    try:
        shown = installed.shell.types(page.text, DIRECTORY="copy", NEW_HOME=home)
        assert f"restored to {home}, as of {json.loads(made.stdout)['made_at']}; " in shown
        yield restored
    finally:
        restored.run("narthex", "down", "--wipe", code=None)


@pytest.mark.stack
def test_a_platform_is_restored_to_a_new_home(
    installed: Environment, restored: Environment
) -> None:
    old = installed.run("narthex", "status", code=1)
    row = {"user_id": 8, "amount": 2.0, "paid_at": dt.datetime.now(dt.UTC).isoformat()}
    restored.run("narthex", "log", "shop", "payments", "--wait", text=json.dumps(row))

    assert "no services run for " in old.stderr
    assert answer_of(restored, "Page", "page", "p2")["Page.visits"] == [VISITS // PAGES]
    assert answer_of(restored, "Shopper", "user_id", "7")["Shopper.payments_ever"] == [1]
    assert answer_of(restored, "Shopper", "user_id", "8")["Shopper.payments_ever"] == [1]
    restored.run("narthex", "audit")


@pytest.mark.stack
def test_the_platform_of_the_wheels_is_proved_and_stops(restored: Environment) -> None:
    proof = restored.run("narthex", "prove", "--json", within_s=600.0)
    restored.run("narthex", "down", "--wipe")

    assert json.loads(proof.stdout)["compared"]
    assert restored.home is not None
    assert not (restored.home / "services.json").exists()
