"""Whole projects of Fennel's authors run under `import fennel`, and a server carries them out."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.peer.environment import peers_python

pytestmark = pytest.mark.slow

HERE: Final = Path(__file__).parent
PROJECTS: Final = {"rides": 20, "loans": 20}
"""The number of datasets and featuresets of each."""

COMPILED: Final = """
import json
import checks
from narthex._analysis.graph import check
from narthex._compiler import compile_blueprint, not_carried_out
from narthex._sdk.commit_definitions import definitions

found = definitions(checks.DATASETS, checks.FEATURESETS, env="test")
errors = [str(error) for error in (*check(found), *not_carried_out(found))]
made = {"errors": errors, "entities": len(found.datasets) + len(found.featuresets)}
print(json.dumps(made | {"assets": len(compile_blueprint(found).assets)}))
"""
"""Compiles the commit of a project as a server does."""


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(HERE / "projects" / request.param, tmp_path / request.param))


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(project)}
    return subprocess.run(
        command, cwd=project, env=environment, check=False, capture_output=True, text=True
    )


def checks(project: Path, python: str, *options: str) -> str:
    alone = ("-c", os.devnull, "--rootdir", str(project), "-p", "no:cacheprovider", "-q")
    done = run(project, python, "-m", "pytest", *alone, *options, "checks.py")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("project", PROJECTS, indirect=True)
def test_the_tests_of_a_project_pass_unmodified(project: Path) -> None:
    said = checks(project, sys.executable, "-p", "narthex.compat.fennel")

    assert " passed" in said


@pytest.mark.acceptance  # the environment of the client needs a network
@pytest.mark.parametrize("project", PROJECTS, indirect=True)
def test_they_pass_with_fennels_client_too(project: Path) -> None:
    said = checks(project, str(peers_python()))

    assert " passed" in said


@pytest.mark.parametrize("project", PROJECTS, indirect=True)
def test_a_server_carries_out_the_commit_of_a_project(project: Path) -> None:
    (project / "compiled.py").write_text(COMPILED, encoding="utf-8")

    done = run(project, sys.executable, "-m", "narthex.compat.fennel", "compiled.py")

    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout.splitlines()[-1])
    assert made["errors"] == []
    assert made["entities"] == PROJECTS[project.name]
    assert made["assets"] > PROJECTS[project.name]
