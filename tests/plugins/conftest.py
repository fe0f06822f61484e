"""Airflow with a home of its own, in a process of its own: no test imports it in ours.

Airflow reads its configuration when it is first imported, and other tests must not see it.
"""

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.shared_services import ROOT, SharedServices, airflow_environment

RUN_S: Final = 240.0

Ask = Callable[..., Any]

_PREPARE: Final = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
"""
_ASKING: Final = """
answer = None
{code}
with open({to!r}, "w") as file:
    json.dump(answer, file)
"""

_FORKING: Final = """
import traceback
from airflow.dag_processing.dagbag import DagBag
from airflow.models import DagRun, TaskInstance
from airflow.providers_manager import ProvidersManager

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        continue
    printed = os.open(asked["log"], os.O_WRONLY | os.O_CREAT)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ.update(asked["environment"])
    try:
        exec(compile(asked["code"], "asked", "exec"), {"json": json, "sys": sys})
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
"""


class Airflow:
    """Runs code beside Airflow, with the home of this run.

    Airflow takes seconds to import. One process has imported it, and forks for each question, if
    this does not configure Airflow itself.
    """

    def __init__(self, home: Path, files: Path) -> None:
        self._environment = airflow_environment(home)
        self._files = files
        self._forking: subprocess.Popen[str] | None = None
        self._asked = 0

    def ask(self, code: str, **more: str) -> Any:
        """Run code; return what it leaves in `answer`."""
        self._asked += 1
        answer = self._files / f"{self._asked}.json"
        log = self._files / f"{self._asked}.log"
        asking = _ASKING.format(code=code, to=str(answer))
        if any(name.startswith("AIRFLOW__") for name in more):
            status = self._run(asking, more, log)
        else:
            status = self._fork(asking, more, log)
        assert status == 0, log.read_text(encoding="utf-8", errors="replace")
        return json.loads(answer.read_text(encoding="utf-8"))

    def _run(self, asking: str, more: dict[str, str], log: Path) -> int:
        with log.open("w", encoding="utf-8") as printed:
            return subprocess.run(
                (sys.executable, "-c", _PREPARE + asking),
                env=self._environment | more,
                cwd=ROOT,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=RUN_S,
                check=False,
            ).returncode

    def _fork(self, asking: str, more: dict[str, str], log: Path) -> int:
        if self._forking is None:
            self._forking = subprocess.Popen(
                (sys.executable, "-c", _PREPARE + _FORKING),
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        asked = {"code": asking, "environment": more, "log": str(log)}
        self._forking.stdin.write(json.dumps(asked) + "\n")
        self._forking.stdin.flush()
        if not select.select([self._forking.stdout], [], [], RUN_S)[0]:
            self._forking.kill()
            raise AssertionError(f"no answer in {RUN_S:g} s")
        return int(self._forking.stdout.readline())

    def close(self) -> None:
        """End the process that forks."""
        if self._forking is not None:
            self._forking.communicate("", timeout=RUN_S)


@pytest.fixture(scope="session")
def airflow_home(shared_services: SharedServices) -> Path:
    """A directory in which Airflow has a migrated database."""
    return shared_services.airflow()


@pytest.fixture(scope="session")
def ask(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Run code beside Airflow; return what it leaves in `answer`."""
    airflow = Airflow(airflow_home, tmp_path_factory.mktemp("asked"))
    yield airflow.ask
    airflow.close()
