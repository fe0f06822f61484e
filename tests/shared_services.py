"""One server of each kind for a whole run, whichever of its processes ask for it.

The controlling process of a run runs the servers; those of pytest-xdist, which run the tests, ask
for them. Both know a directory: who needs a service touches `NAME.wanted`, and waits for
`NAME.json`, which says where the service is, or for `NAME.failed`. So a run of tests without
services starts none.
"""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from narthex._base import Backoff
from narthex_stack.machine.files import Json, load_object, store_json
from narthex_stack.servers.local_servers import PostgresServer, kafka_broker, postgres_server
from narthex_stack.servers.postgres import Cluster

Answer = dict[str, Json]
Run = Callable[[Path], AbstractContextManager[Answer]]

ROOT: Final = Path(__file__).resolve().parents[1]

_POLL_S: Final = 0.05
_WITHIN_S: Final = 300.0
_MOST_PROCESSES: Final = 8


@contextmanager
def _postgres(home: Path) -> Iterator[Answer]:
    with postgres_server(home) as server:
        paths = {name: str(getattr(server.cluster, name)) for name in ("data", "programs")}
        yield attrs.asdict(server.cluster) | paths


@contextmanager
def _kafka(home: Path) -> Iterator[Answer]:
    with kafka_broker(home) as bootstrap:
        yield {"bootstrap": bootstrap, "log": str(home / "kafka.log")}


@contextmanager
def _airflow(home: Path) -> Iterator[Answer]:
    (home / "plugins").mkdir()
    done = subprocess.run(
        (sys.executable, "-m", "airflow", "db", "migrate"),
        env=airflow_environment(home),
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    yield {"home": str(home)}


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
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }


SERVICES: Final[Mapping[str, Run]] = {
    "postgres": _postgres,
    "kafka": _kafka,
    "airflow": _airflow,
}
"""Each service: a database server, a broker, and a home of Airflow with a migrated database."""


class Running:
    """Runs the services that are asked for, until it is closed."""

    def __init__(self, home: Path) -> None:
        """Start to listen for requests in a directory."""
        self.home = home
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, args=(name, run), name=f"tests' {name}")
            for name, run in SERVICES.items()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop all services, and wait for their end."""
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _serve(self, name: str, run: Run) -> None:
        wanted = self.home / f"{name}.wanted"
        while not wanted.exists():
            if self._ends.wait(_POLL_S):
                return
        home = self.home / name
        home.mkdir()
        # Root's PostgreSQL runs as another account.
        home.chmod(0o755)
        try:
            with run(home) as answer:
                store_json(self.home / f"{name}.json", answer)
                self._ends.wait()
        except Exception as error:  # noqa: BLE001 (the processes that wait for it fail with this)
            store_json(self.home / f"{name}.failed", {"why": f"{type(error).__name__}: {error}"})


@attrs.frozen
class SharedServices:
    """The services of a run, as a process that runs tests sees them."""

    home: Path

    def postgres(self) -> PostgresServer:
        """Return the database server; it is started if no process has asked for it."""
        found: dict[str, Any] = self._ask("postgres")
        paths = {name: Path(found[name]) for name in ("data", "programs")}
        return PostgresServer(cluster=Cluster(**found | paths))

    def kafka(self) -> tuple[str, Path]:
        """Return the address of the broker, and its log."""
        found = self._ask("kafka")
        return str(found["bootstrap"]), Path(str(found["log"]))

    def airflow(self) -> Path:
        """Return a home of Airflow, which no test changes."""
        return Path(str(self._ask("airflow")["home"]))

    def _ask(self, name: str) -> Answer:
        (self.home / f"{name}.wanted").touch()
        for _ in Backoff(first_s=_POLL_S, greatest_s=_POLL_S).attempts(within_s=_WITHIN_S):
            if found := load_object(self.home / f"{name}.json"):
                return found
            if failed := load_object(self.home / f"{name}.failed"):
                raise RuntimeError(f"`{name}` of this run did not start: {failed['why']}")
        raise RuntimeError(f"`{name}` of this run did not start in {_WITHIN_S:g} s")


_numbers = itertools.count(1)


def fresh_number() -> int:
    """Return a positive number that no other test of the run has, in whichever process."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    assert worker < _MOST_PROCESSES
    return next(_numbers) * _MOST_PROCESSES + worker


def fresh_install_id() -> str:
    """Return an identifier of an installation that no other test of the run has."""
    return f"t{fresh_number():07}"


def fresh_name(prefix: str) -> str:
    """Return a name that no other test of the run has: the services are shared."""
    return f"{prefix}_{fresh_number()}"
