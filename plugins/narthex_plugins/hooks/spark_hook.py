"""The hook of the connection type `narthex_spark`: run an application with `spark-submit`.

The hook of Apache's Spark provider cannot be used: the provider depends on `pyspark-client`, which
overwrites files of `pyspark` (docs/decisions/0064-three-wheels.md).
"""

import shutil
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow.sdk import BaseHook, Connection

TAIL: Final = 20
"""The number of last lines of output that an error contains."""

STOPS_S: Final = 10.0
"""How long a run that is asked to stop may take, before it is killed."""


class SparkSubmitFailedError(RuntimeError):
    """`spark-submit` is not installed, or exited with an error."""


class NarthexSparkHook(BaseHook):
    """Runs applications on the Spark that a connection names.

    The host is the master: `local[2]`, `spark://HOST:PORT`, `yarn`, `k8s://https://HOST:PORT`. The
    extra may have `deploy-mode`, `queue` (YARN) and `namespace` (Kubernetes). A connection of the
    type `spark` has the same fields.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "spark_narthex"
    conn_type = "narthex_spark"
    hook_name = "Spark for Narthex"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        """Use a connection, which is read when a run starts."""
        super().__init__()
        self.conn_id = conn_id
        self._process: subprocess.Popen[str] | None = None

    def submit(
        self,
        application: Path,
        arguments: Sequence[str],
        *,
        name: str,
        jars: Sequence[Path],
        conf: Mapping[str, str],
    ) -> None:
        """Run an application and wait for it; its output goes to the log of the task.

        Raises:
            SparkSubmitFailedError: `spark-submit` is missing, or it failed; the message has its
                last lines.
        """
        program = shutil.which("spark-submit")
        if program is None:
            raise SparkSubmitFailedError(
                "`spark-submit` is not on the PATH; install `narthex-platform` beside this Airflow"
            )
        options = options_of(self.get_connection(self.conn_id))
        options += ["--name", name]
        options += ["--jars", ",".join(map(str, jars))] if jars else []
        for key, value in conf.items():
            options += ["--conf", f"{key}={value}"]
        self._run([program, *options, str(application), *arguments])

    def _run(self, command: list[str]) -> None:
        last: deque[str] = deque(maxlen=TAIL)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            self._process = process
            for line in process.stdout or ():
                last.append(line.rstrip())
                self.log.info("%s", last[-1])
        if process.returncode:
            output = "\n".join(last)
            raise SparkSubmitFailedError(
                f"`spark-submit` exited with {process.returncode}; its last lines:\n{output}"
            )

    def on_kill(self) -> None:
        """Stop the run, if there is one."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOPS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


def options_of(connection: Connection) -> list[str]:
    """Return the options of `spark-submit` for a connection.

    Raises:
        SparkSubmitFailedError: The connection names no master.
    """
    if not connection.host:
        raise SparkSubmitFailedError(
            f"the connection `{connection.conn_id}` has no host; set it to the master of your Spark"
        )
    port = f":{connection.port}" if connection.port else ""
    options = ["--master", f"{connection.host}{port}"]
    extra = connection.extra_dejson
    for name in ("deploy-mode", "queue"):
        if extra.get(name):
            options += [f"--{name}", str(extra[name])]
    if extra.get("namespace"):
        options += ["--conf", f"spark.kubernetes.namespace={extra['namespace']}"]
    return options
