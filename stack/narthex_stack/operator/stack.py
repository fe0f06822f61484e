"""The services of one installation, as an object to start and stop; `narthex up` uses it."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from narthex._base import Backoff, OverwrittenPackageError, require_whole_pyspark
from narthex._processes import Process, is_alive, send_signal, wait_gone
from narthex.settings import HOME_GROUP, Settings, home_of, load_settings
from narthex_stack.errors import NotHereError, NotStartedError, OverwrittenError
from narthex_stack.install.formats import record_formats, require_known_formats
from narthex_stack.install.installation import load_installation, working_directory
from narthex_stack.install.layout import HomeLayout
from narthex_stack.local_services.groups import GROUPS, OPTIONAL_GROUPS, START_S
from narthex_stack.local_services.service_plan import cluster, with_needs
from narthex_stack.machine.files import load_object, store_json, tail
from narthex_stack.operator.status import (
    ServiceState,
    ServiceStatus,
    Status,
    load_children,
    load_services,
)
from narthex_stack.processes.leftovers import OPERATOR_HOME, leftovers
from narthex_stack.servers import postgres

_OPERATOR_S = 60.0
_STOP_S = 180.0
_STOP_SIGNAL_S = 30.0
_KILLED_S = 5.0
_STEP_S = 0.2
_POLL = Backoff(first_s=0.1, greatest_s=0.3)

_OURS = (
    "postgres",
    "kafka",
    "airflow",
    "index",
    "history",
    "checkpoints",
    "snapshots",
    "offline",
    "training_sets",
    "environments",
    "expectations",
    "control-log.heads",
    "spark",
    "run",
    "logs",
    "ports.json",
    "secrets.json",
    "services.json",
    "formats.json",
)

Watcher = Callable[[Status], None]
"""Called with each status during a wait."""


def _ignore(_status: Status) -> None:
    return


def require_whole_packages() -> None:
    """Check that no installed package has overwritten another.

    Raises:
        OverwrittenError: One has; the message has the remedy.
    """
    try:
        require_whole_pyspark()
    except OverwrittenPackageError as error:
        raise OverwrittenError(str(error)) from error


def _as_of_now(service: ServiceStatus) -> ServiceStatus:
    """Correct a stored status: a process may have died since the operator's last look."""
    is_gone = service.process is not None and not is_alive(service.process)
    if not is_gone or service.state is not ServiceState.HEALTHY:
        return service
    return attrs.evolve(service, state=ServiceState.UNWELL, reason="its process has just ended")


class Stack:
    """The services of one home.

    As a context manager, it starts them, returns itself, and stops what it started.

    Examples:
        with Stack(tmp_path, only=("postgres", "kafka")) as stack:
            print(stack.settings.kafka)
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        only: Iterable[str] = GROUPS,
        files_root: Path | None = None,
    ) -> None:
        """Name an installation, without side effects.

        Args:
            home: The directory of its state; by default `NARTHEX_HOME`, else `~/.narthex`.
            only: The groups that `start` starts, with the groups that they need.
            files_root: The root of relative paths of file sources.
        """
        self.layout = HomeLayout(home or home_of(os.environ))
        self._groups = with_needs(only)
        self._files_root = files_root

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def settings(self) -> Settings:
        """The settings of this home, independent of the environment but for who may enter it.

        Raises:
            NotInstalledError: The installation was never started.
        """
        of_group = os.environ.get(HOME_GROUP, "")
        return load_settings({"NARTHEX_HOME": str(self.layout.home), HOME_GROUP: of_group})

    def status(self) -> Status:
        """Return the operator's last report; without services if no operator is running."""
        operator = Process.parse(load_object(self.layout.operator))
        if operator is None or not is_alive(operator):
            return Status(home=self.layout.home, operator=None)
        services = tuple(_as_of_now(each) for each in load_services(self.layout.status))
        return Status(home=self.layout.home, operator=operator, services=services)

    def launch(self) -> bool:
        """Ensure that an operator runs the wanted services; return whether one was running already.

        Processes that a killed operator left behind are stopped first.

        Raises:
            BadConfigError: The configuration cannot be meant.
            NotHereError: The working directory was deleted.
            NotStartedError: The operator itself did not start.
            NewerInstallationError: A later release wrote the installation; nothing was started.
            OverwrittenError: Another package has overwritten files of PySpark.
        """
        require_whole_packages()
        self.layout.make()
        with self.locked():
            require_known_formats(self.layout)
            decided = load_installation(self.layout, files_root=self._files_root)
            is_ours = not (decided.config.ledger_dsn and decided.config.airflow_dsn)
            if is_ours and "postgres" in self._groups:
                cluster(decided)  # its data may be where its account cannot reach them
            running = self.status()
            if running.operator is not None:
                groups = {service.group for service in running.services}
                self._want(groups | set(self._groups))
                send_signal(running.operator, signal.SIGHUP)
                return True
            self._sweep()
            self._want(set(self._groups))
            if "server" in self._groups:
                record_formats(self.layout)
            self._spawn(decided.settings.files_root)
            return False

    def start(self, *, within_s: float = START_S, watch: Watcher = _ignore) -> Status:
        """Start the wanted services and wait until all of them are healthy.

        Raises:
            NotStartedError: A service did not become healthy; the message ends with its log.
            BadConfigError: The configuration cannot be meant.
        """
        self.launch()
        return self.wait_healthy(within_s=within_s, watch=watch)

    def wait_healthy(self, *, within_s: float = START_S, watch: Watcher = _ignore) -> Status:
        """Wait until all wanted services are healthy.

        Raises:
            NotStartedError: A service is not, and either time is up or it keeps failing.
        """
        unhealthy: list[ServiceStatus] = []
        for _ in _POLL.attempts(within_s=within_s):
            found = self.status()
            watch(found)
            has_all = set(self._groups) - OPTIONAL_GROUPS <= {one.group for one in found.services}
            if has_all and found.is_well:
                return found
            if found.operator is None:
                output = tail(self.layout.log("operator"), lines=20)
                raise NotStartedError(f"the operator has ended:\n{output}")
            unhealthy = [service for service in found.services if not service.is_well]
            hopeless = [service for service in unhealthy if service.is_hopeless]
            if hopeless:
                raise NotStartedError(self._describe(hopeless))
        raise NotStartedError(self._describe(unhealthy))

    def stop(self, *, watch: Watcher = _ignore) -> None:
        """Stop all services in order, and all processes that a killed operator left behind."""
        if not self.layout.run_dir.is_dir():
            return
        with self.locked():
            operator = self.status().operator
            if operator is not None:
                send_signal(operator, signal.SIGTERM)
                end = time.monotonic() + _STOP_S
                while wait_gone((operator,), within_s=_STEP_S) and time.monotonic() < end:
                    watch(self.status())
                send_signal(operator, signal.SIGKILL)
            self._sweep()

    def wipe(self) -> None:
        """Stop everything and delete its state, except `config.toml` and state outside the home.

        Raises:
            NotHereError: The home has no installation; nothing in it is deleted.
        """
        if not self.layout.secrets.is_file():
            raise NotHereError(f"`{self.layout.home}` holds no installation")
        self.stop()
        # No file source is read here any more: a given root avoids the search for one.
        postgres.wipe(cluster(load_installation(self.layout, files_root=self.layout.home)))
        for name in _OURS:
            path = self.layout.home / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _want(self, groups: set[str]) -> None:
        store_json(self.layout.wanted, {"groups": [each for each in GROUPS if each in groups]})

    def _spawn(self, files_root: Path) -> None:
        self.layout.status.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != OPERATOR_HOME}
        # The root named here is fixed for the operator's lifetime.
        environment["NARTHEX_FILES_ROOT"] = str(files_root)
        log = self.layout.log("operator")
        with log.open("ab") as output:
            subprocess.run(
                (sys.executable, "-m", "narthex_stack.operator.main", str(self.layout.home)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=working_directory(),
                start_new_session=True,
                check=True,
            )
        _POLL.until(
            lambda: self.status().operator is not None or self._has_operator_ended(),
            within_s=_OPERATOR_S,
        )
        if self.status().operator is None:
            raise NotStartedError(f"the operator did not start:\n{tail(log, lines=20)}")

    def _has_operator_ended(self) -> bool:
        """Return whether the operator's lock was taken once, but is free now."""
        path = self.layout.run_dir / "operator.lock"
        if not path.is_file() or self.status().operator is not None:
            return False
        with path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return self.status().operator is None

    def _sweep(self) -> None:
        """End processes left without an operator: by their stop signal, then by SIGKILL."""
        left = self._leftovers()
        for process in left:
            send_signal(process, self._stop_signal(process))
        for process in wait_gone(left, within_s=_STOP_SIGNAL_S):
            send_signal(process, signal.SIGKILL)
        # Children of a killed parent may be orphaned only now.
        left = self._leftovers()
        for process in left:
            send_signal(process, signal.SIGKILL)
        wait_gone(left, within_s=_KILLED_S)
        for path in (self.layout.children, self.layout.operator, self.layout.status):
            path.unlink(missing_ok=True)

    def _leftovers(self) -> tuple[Process, ...]:
        return leftovers(self.layout.home, load_children(self.layout.children))

    def _stop_signal(self, process: Process) -> signal.Signals:
        """Return the stop signal: on SIGTERM, PostgreSQL would wait for its clients."""
        postgres_server = Process.parse(load_object(self.layout.children).get("postgres"))
        return signal.SIGINT if process == postgres_server else signal.SIGTERM

    def _describe(self, unhealthy: Iterable[ServiceStatus]) -> str:
        return "\n".join(
            f"`{service.name}` is {service.state.value}: {service.reason or 'no reason yet'}\n"
            f"{tail(self.layout.log(service.name), lines=20)}"
            for service in unhealthy
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process start or stop services until the end of the block."""
        with (self.layout.run_dir / "stack.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
