"""Whole projects in Fennel's style answer on a platform as they answer in process."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.platform import Platform
from tests.peer.test_projects import HERE, PROJECTS

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

PROGRAM = HERE / "projects" / "answers.py"
ANSWERED = {"rides": 3, "loans": 3}
"""The number of rows that each project asks for."""


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_answers_on_a_platform_as_in_process(
    platform: Platform, tmp_path: Path, name: str
) -> None:
    project = Path(shutil.copytree(HERE / "projects" / name, tmp_path / name))
    shutil.copy(PROGRAM, project)
    settings = platform.settings
    command = ("-m", "narthex.compat.fennel", PROGRAM.name)

    done = subprocess.run(
        [sys.executable, *command, settings.server_url, settings.token, f"fennel-{name}"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["in_process"]) == ANSWERED[name]
    assert found["served"] == found["in_process"]
