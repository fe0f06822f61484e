"""Airflow as four processes on PostgreSQL; never `airflow standalone`, which leaves orphans."""

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from narthex._base import atomic_write
from narthex.settings import environment_of
from narthex_stack.errors import BadConfigError, PreparationError
from narthex_stack.install.installation import Installation
from narthex_stack.local_services.probes import look_at_component
from narthex_stack.machine.files import store_json
from narthex_stack.machine.java import java_home
from narthex_stack.machine.ports import HOST
from narthex_stack.processes.service import Probe, Service

_MIGRATE_TIMEOUT_S = 180.0

PROCESSES = {
    "scheduler": "scheduler",
    "triggerer": "triggerer",
    "dag-processor": "dag_processor",
    "api-server": "metadatabase",
}
"""The four processes, in the order of their stop, with their names on the health page."""

_RUN_TASKS = frozenset({"scheduler", "triggerer"})
# Their servers of logs would listen on all interfaces; the API server reads the files.
_OPTIONS = dict.fromkeys(_RUN_TASKS, ("--skip-serve-logs",))
"""Those whose tasks call the API server: a task that began before it would fail."""


def dags_dir(installation: Installation) -> Path:
    """Return the DAG directory: the configured one, else ours.

    A wheel has it in the package of the plugins, a checkout at the top.

    Raises:
        BadConfigError: There are none.
    """
    named = installation.config.dags_dir
    plugins = Path(str(resources.files("narthex_plugins")))
    ours = plugins / "dags"
    found = Path(named) if named else ours if ours.is_dir() else plugins.parents[1] / "dags"
    if not found.is_dir():
        raise BadConfigError(f"`{found}` is not a directory; set `dags_dir` in `config.toml`")
    return found.resolve()


def dsn(installation: Installation) -> str:
    """Return the URL of Airflow's database, with a driver that is both sync and async."""
    configured = installation.config.airflow_dsn
    if configured:
        return configured.replace("postgresql+psycopg2://", "postgresql+psycopg://")
    password = installation.credentials.airflow_db_password
    return (
        f"postgresql+psycopg://airflow:{password}@{HOST}:{installation.ports['postgres']}/airflow"
    )


def environment(installation: Installation) -> dict[str, str]:
    """Return the environment of the four processes and their tasks."""
    home = installation.layout.home / "airflow"
    ports = installation.ports
    address = f"http://{HOST}:{ports['airflow']}"
    database = dsn(installation)
    own = environment_of(installation.settings)
    # Airflow posts steps with the rights of its DAGs, and has no access to ledger and indexes.
    del own["NARTHEX_LEDGER_DSN"], own["NARTHEX_INDEX_STORE_PASSWORD"]
    own["NARTHEX_TOKEN"] = own.pop("NARTHEX_DAGS_TOKEN")
    # A task must not answer for a person, as the platform's account in Airflow could.
    own |= {"NARTHEX_AIRFLOW_USER": "", "NARTHEX_AIRFLOW_PASSWORD": ""}
    return own | {
        "AIRFLOW_HOME": str(home),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        "JAVA_HOME": str(java_home(cache=installation.cache)),
        "PYSPARK_PYTHON": sys.executable,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_dir(installation)),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,op:op,viewer:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": installation.credentials.fernet_key,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database.replace(
            "postgresql+psycopg://", "postgresql+psycopg_async://"
        ),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(ports["airflow"]),
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": installation.credentials.secret_key,
        "AIRFLOW__API_AUTH__JWT_SECRET": installation.credentials.jwt_secret,
        **_PACE,
        _SPARK: os.environ.get(_SPARK) or _spark_connection(installation),
    }


_SPARK = "AIRFLOW_CONN_SPARK_NARTHEX"
"""The connection whose Spark runs large backfills, in the form of Airflow's variables."""


def _spark_connection(installation: Installation) -> str:
    """Return a connection to the Spark of live jobs, or one in the task's own process."""
    settings = installation.settings
    host = "local[2]" if settings.has_local_spark else settings.spark_master
    return json.dumps({"conn_type": "spark", "host": host})


_STOP_S = 5.0
"""How long a process may take to stop: the API server would wait for all of its clients."""

_TASKS_S = 15.0
"""How long the tasks that run may take to end when the scheduler stops."""

_PACE = {
    # A chain of six tasks takes 2 s instead of 8, for a tenth of a core.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # Otherwise, a machine that is busy for half a minute fails tasks that never began.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
    # A new DAG file is seen within ten seconds, not after five minutes.
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "120",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "5",
}


def services(installation: Installation) -> tuple[Service, ...]:
    """Return the four services; the first one to be prepared migrates the database for all."""
    home = installation.layout.home / "airflow"
    values = environment(installation)
    prepare = once(lambda: migrate(installation, values))
    needs = () if installation.config.airflow_dsn else ("postgres",)
    return tuple(
        Service(
            name=f"airflow-{name}",
            group="airflow",
            command=(sys.executable, "-m", "airflow", name, *_OPTIONS.get(name, ())),
            environment=values,
            cwd=home,
            needs=(*needs, "airflow-api-server") if name in _RUN_TASKS else needs,
            prepare=prepare,
            probe=_probe(installation, component),
            stop_within_s=_TASKS_S if name == "scheduler" else _STOP_S,
            stop_wave=1 if name == "api-server" else 0,
            port=installation.ports["airflow"] if name == "api-server" else 0,
            within_s=240.0,
        )
        for name, component in PROCESSES.items()
    )


def _probe(installation: Installation, component: str) -> Probe:
    url = f"http://{HOST}:{installation.ports['airflow']}/api/v2/monitor/health"
    return lambda: look_at_component(url, component)


def once(step: Callable[[], None]) -> Callable[[], None]:
    """Return a step that is taken on its first call only; concurrent calls wait for it."""
    lock = threading.Lock()
    done = threading.Event()

    def take() -> None:
        with lock:
            if not done.is_set():
                step()
                done.set()

    return take


def migrate(installation: Installation, values: dict[str, str]) -> None:
    """Write the passwords, and migrate the database to this Airflow's version.

    Raises:
        PreparationError: `airflow db migrate` failed.
    """
    home = installation.layout.home / "airflow"
    (home / "plugins").mkdir(parents=True, exist_ok=True)
    keys = installation.credentials
    store_json(
        home / "passwords.json",
        {"admin": keys.airflow_password, "op": keys.op_password, "viewer": keys.viewer_password},
    )
    version = importlib.metadata.version("apache-airflow-core")
    marker = home / f"migrated-{version}"
    if marker.is_file() and not installation.config.airflow_dsn:
        return
    done = subprocess.run(
        (sys.executable, "-m", "airflow", "db", "migrate"),
        capture_output=True,
        text=True,
        env={**os.environ, **values},
        cwd=home,
        timeout=_MIGRATE_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise PreparationError(
            f"`airflow db migrate` failed: {(done.stdout + done.stderr)[-2000:]}"
        )
    atomic_write(marker, f"{version}\n")
