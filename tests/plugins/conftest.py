"""Airflow with a home of its own, in a process of its own: no test imports it in ours.

Airflow reads its configuration when it is first imported, and other tests must not see it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 240.0

Ask = Callable[..., Any]

_ASKING = """
import json, sys, warnings
warnings.simplefilter("ignore")
answer = None
{code}
print("ANSWER " + json.dumps(answer))
"""


def airflow_environment(home: Path) -> dict[str, str]:
    """Configure an Airflow with SQLite below `home`, without a platform."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "NARTHEX"))
    }
    return kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "plugins" / "narthex_plugins" / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which Airflow has a migrated database."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "plugins").mkdir()
    done = subprocess.run(
        (sys.executable, "-m", "airflow", "db", "migrate"),
        env=airflow_environment(home),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture(scope="session")
def ask(airflow_home: Path) -> Ask:
    """Run code beside Airflow; return what it leaves in `answer`."""

    def run(code: str, **more: str) -> Any:
        done = subprocess.run(
            (sys.executable, "-c", _ASKING.format(code=code)),
            env=airflow_environment(airflow_home) | more,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = [one for one in done.stdout.splitlines() if one.startswith("ANSWER ")]
        return json.loads(line.removeprefix("ANSWER "))

    return run
