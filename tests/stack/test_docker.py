import ast
import importlib
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCKER = Path(__file__).parents[2] / "docker"
PINNED = re.compile(r"^[\w./-]+:\d+\.\d+[\w.-]*$")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((DOCKER / "compose.yml").read_text())


def test_each_process_of_the_platform_is_a_service(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {
        "postgres",
        "kafka",
        "server",
        "supervisor",
        "airflow-migrate",
        "airflow-scheduler",
        "airflow-triggerer",
        "airflow-dag-processor",
        "airflow-api-server",
    }


def test_each_image_is_pinned_and_runs_without_root(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert PINNED.match(service["image"])
        assert service["user"] not in {"root", "0", "0:0"}


def test_each_dependency_and_volume_is_there(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        named = {str(mount).partition(":")[0] for mount in service.get("volumes", [])}
        assert {each for each in named if each.isalpha()} <= set(compose["volumes"])


def test_airflow_has_its_own_token_and_no_account_of_the_platform(compose: dict[str, Any]) -> None:
    """The token of its processes has fewer rights, and no task can answer for a person."""
    environments = {name: one["environment"] for name, one in compose["services"].items()}
    airflow = {name for name in environments if name.startswith("airflow-")}
    server = environments["server"]

    assert len(airflow) == 5
    assert server["NARTHEX_TOKEN"] != server["NARTHEX_DAGS_TOKEN"]
    for name in airflow:
        assert environments[name]["NARTHEX_TOKEN"] == server["NARTHEX_DAGS_TOKEN"]
        assert "NARTHEX_DAGS_TOKEN" not in environments[name]
    for name in airflow - {"airflow-migrate"}:
        assert environments[name]["NARTHEX_AIRFLOW_PASSWORD"] == ""


def test_each_container_is_bounded_and_gains_no_privileges(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["mem_limit"], name
        assert service["pids_limit"] > 0, name


def test_each_root_but_the_broker_s_is_read_only(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service.get("read_only", False) == (name != "kafka"), name
        assert not service.get("read_only") or any(
            mount.startswith("/tmp") for mount in service["tmpfs"]
        ), name


def test_each_database_is_for_its_own_role() -> None:
    text = (DOCKER / "databases.sh").read_text()

    for name in ("narthex", "airflow"):
        assert f"REVOKE ALL ON DATABASE {name} FROM PUBLIC;" in text


def test_no_secret_has_a_default() -> None:
    text = (DOCKER / "compose.yml").read_text()
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|TOKEN|SECRET|KEY)\w*)(:\?)?\}", text))
    listed = set(re.findall(r"^(\w+)=$", (DOCKER / "env.example").read_text(), re.MULTILINE))

    assert secrets
    assert all(required == ":?" for _, required in secrets)
    assert {name for name, _ in secrets} <= listed


def test_the_image_is_pinned_and_leaves_root() -> None:
    lines = (DOCKER / "Dockerfile").read_text().splitlines()

    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    users = [line.split()[1] for line in lines if line.startswith("USER ")]

    assert all(PINNED.match(base) for base in bases)
    assert users == ["narthex"]


def test_the_image_imports_what_exists() -> None:
    """The programs that the build runs as `python -c` find the names that they import."""
    programs = re.findall(r'python -c "([^"]+)"', (DOCKER / "Dockerfile").read_text())
    imports = [
        (statement.module, name.name)
        for program in programs
        for statement in ast.parse(program).body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for name in statement.names
    ]

    assert imports
    for module, name in imports:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_the_image_has_the_user_and_the_group_as_which_containers_run(
    compose: dict[str, Any],
) -> None:
    text = (DOCKER / "Dockerfile").read_text()
    groups = re.findall(r"groupadd --gid (\d+) narthex", text)
    users = re.findall(r"useradd --uid (\d+) --gid (\d+) .*narthex", text)

    assert users == [tuple(compose["services"]["server"]["user"].split(":"))]
    assert groups == [users[0][1]]


def test_the_script_that_makes_the_databases_can_be_run() -> None:
    assert (DOCKER / "databases.sh").stat().st_mode & stat.S_IXUSR


def test_the_home_of_the_image_is_its_account_s_alone() -> None:
    image = (DOCKER / "Dockerfile").read_text()

    assert "install -d -m 0700 -o narthex -g narthex /var/lib/narthex " in image
