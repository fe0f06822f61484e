"""The wheels contain what runs, and nothing of a contributor's tree."""

import re
import zipfile
from pathlib import Path

import pytest

from tests.wheels.projects import AIRFLOW, PLATFORM, PROJECTS, ROOT, Project

pytestmark = pytest.mark.wheels


def open_wheel(wheels: Path, project: Project) -> zipfile.ZipFile:
    (path,) = wheels.glob(f"{project.name.replace('-', '_')}-{project.version}-*.whl")
    return zipfile.ZipFile(path)


def content(wheels: Path, project: Project) -> set[str]:
    with open_wheel(wheels, project) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_wheel_has_every_file_of_its_packages(wheels: Path, project: Project) -> None:
    assert content(wheels, project) == {place for place, _ in project.files()}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_wheel_has_no_test_and_names_no_path_of_a_checkout(
    wheels: Path, project: Project
) -> None:
    with open_wheel(wheels, project) as wheel:
        texts = {name: wheel.read(name) for name in wheel.namelist()}

    assert [name for name in texts if re.search(r"(^|/)(test_\w+|conftest)\.py$", name)] == []
    assert [name for name, text in texts.items() if str(ROOT).encode() in text] == []
    assert [name for name in texts if name.endswith("licenses/LICENSE")]


def test_files_that_are_read_at_run_time_are_in_the_wheels(wheels: Path) -> None:
    platform, airflow = content(wheels, PLATFORM), content(wheels, AIRFLOW)

    assert "narthex_stack/jars.sha256" in platform
    assert "narthex_ledger/db/migrations/script.py.mako" in platform
    assert "narthex_ledger/db/migrations/versions/0001_first.sql" in platform
    assert "narthex_server/console/console.css" in platform
    assert "narthex_server/console/templates/layout.html" in platform
    assert "narthex_plugins/dags/commit.py" in airflow
    assert "narthex_plugins/spark/run_job.py" in airflow


def test_no_two_wheels_have_the_same_file(wheels: Path) -> None:
    contents = [content(wheels, project) for project in PROJECTS]

    assert sum(map(len, contents)) == len(set().union(*contents))
