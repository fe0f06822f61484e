"""Options of a driver's JVM, and an archive of the classes that it loads.

A JVM with an archive maps classes that are already parsed and checked (class data sharing). It
accepts an archive only from the same JVM with the same class path.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from narthex.settings import Settings

CODE_CACHE_BYTES = 512 * 1024**2
"""Address space for code that a driver's JVM compiles; memory is used as it fills."""

OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=4",
    # Ten times Java's defaults: most of what runs often during a start does not run again, and the
    # second compiler took a third of the start's CPU time for it.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    # Spark compiles each plan to new classes. When the cache is full, the JVM reports a fatal error
    # and Spark stops its context; the default is 240 MB, with `TieredStopAtLevel=1` only 48.
    f"-XX:ReservedCodeCacheSize={CODE_CACHE_BYTES}",
    "-Xss4m",
    # Logs of the JVM itself would go to stdout, which is for reports only.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)

_CONNECTORS = (
    "spark-sql-kafka-*",
    "spark-token-provider-kafka-*",
    "kafka-clients-*",
    "commons-pool2-*",
    "spark-avro_*",
)
_LAUNCHER_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class MissingConnectorError(RuntimeError):
    """A jar that Spark needs for Kafka is not at the configured path."""


def connector_jars(jars_dir: Path) -> tuple[Path, ...]:
    """Return the jars with which Spark reads and writes Kafka and Avro.

    Raises:
        MissingConnectorError: A jar is missing.
    """
    found: list[Path] = []
    for pattern in _CONNECTORS:
        matches = sorted(jars_dir.glob(pattern + ".jar"))
        if not matches:
            raise MissingConnectorError(
                f"`{jars_dir}` has no `{pattern}.jar`; fetch the connectors with `narthex up`"
            )
        found.append(matches[-1])
    return tuple(found)


def class_path(settings: Settings) -> dict[str, str]:
    """Return the part of Spark's configuration that names the connector jars.

    In a single process they are on the class path with Spark's own jars, because only those classes
    are archived; on a cluster the driver sends them to the executors.
    """
    jars = [str(jar) for jar in connector_jars(settings.jars_dir)]
    if settings.has_local_spark:
        return {"spark.driver.extraClassPath": os.pathsep.join(jars)}
    return {"spark.jars": ",".join(jars)}


def archive_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Path:
    """Return the archive path for this Java, Spark and connectors, in the connectors' directory.

    An empty file means that this Java writes no archive.
    """
    found = os.environ if environment is None else environment
    home = found.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    parts = [metadata.version("pyspark"), *(jar.name for jar in connector_jars(settings.jars_dir))]
    if java.exists():
        status = java.resolve().stat()
        parts += [str(java.resolve()), str(status.st_mtime_ns), str(status.st_size)]
    digest = hashlib.sha256("\n".join((*parts, *OPTIONS)).encode()).hexdigest()
    return settings.jars_dir.parent / f"classes-{digest[:16]}.jsa"


def java_options(settings: Settings) -> str:
    """Render the options of a JVM, with the archive if there is one."""
    archive = archive_of(settings)
    has_archive = archive.is_file() and archive.stat().st_size > 0
    shared = (f"-XX:SharedArchiveFile={archive}",) if has_archive else ()
    return " ".join((*OPTIONS, *shared))


def ready_environment() -> None:
    """Speed up the short-lived JVM that only renders the command of the driver's JVM."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
