"""`narthex shell`: Python with a client and the definitions of a project."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.cli.test_client_commands import BROKEN, SOUND

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:1"
STAND_IN = """
def start_ipython(argv, user_ns):
    print(sorted(user_ns), user_ns["client"].branch())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "features.py").write_text(SOUND)
    return tmp_path


def shell(directory: Path, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "narthex.cli", "shell", *arguments, "--url", NOBODY],
        cwd=directory,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(directory), "HOME": str(directory)},
    )


def test_a_shell_has_the_definitions_and_a_client_of_the_branch(project: Path) -> None:
    typed = "print(Orders.fqn(), client.branch(), pd.__name__)\n"

    done = shell(project, "features.py", "--branch", "dev", typed=typed)

    assert (done.returncode, "Orders dev pandas" in done.stdout) == (0, True), done.stderr
    assert "branch `dev`; Orders (dataset), pd (pandas), client (client)" in done.stderr


def test_errors_of_narthex_are_sentences_and_those_of_python_are_tracebacks(project: Path) -> None:
    refused = shell(project, typed='client.read("jobs")\n')
    own = shell(project, typed="1 / 0\n")

    assert f"[NX951] `{NOBODY}` cannot be reached" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "ZeroDivisionError" in own.stderr


def test_the_file_of_a_project_needs_no_argument(project: Path) -> None:
    (project / "narthex.toml").write_text('file = "features.py"\n')

    done = shell(project, "--json")

    assert json.loads(done.stdout) == {
        "branch": "main",
        "names": {"Orders": "dataset", "pd": "pandas", "client": "client"},
    }


def test_a_file_with_mistakes_starts_no_shell(project: Path) -> None:
    (project / "features.py").write_text(BROKEN)

    done = shell(project, "features.py", typed="print('started')\n")

    assert (done.returncode, done.stdout) == (1, "")
    assert "4 mistakes" in done.stderr


def test_ipython_is_used_if_it_is_installed(project: Path) -> None:
    (project / "IPython.py").write_text(STAND_IN)

    done = shell(project, "features.py")

    assert done.stdout == "['Orders', 'client', 'pd'] main\n", done.stderr
