"""Airflow with a home of its own, in a process of its own: no test imports it in ours.

Airflow reads its configuration when it is first imported, and other tests must not see it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.shared_services import ROOT, SharedServices, airflow_environment

RUN_S = 240.0

Ask = Callable[..., Any]

_ASKING = """
import json, sys, warnings
warnings.simplefilter("ignore")
answer = None
{code}
print("ANSWER " + json.dumps(answer))
"""


@pytest.fixture(scope="session")
def airflow_home(shared_services: SharedServices) -> Path:
    """A directory in which Airflow has a migrated database."""
    return shared_services.airflow()


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
