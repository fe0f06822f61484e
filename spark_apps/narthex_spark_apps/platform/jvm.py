"""How the JVM of a driver is started: its options, and an archive of the classes that it loads.

A JVM with an archive maps classes that are parsed and checked already (class data sharing). It
takes an archive only if it is the JVM, and has the class path, of the one that wrote it.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from narthex.settings import Settings

OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=4",
    "-Xss4m",
    # What the JVM itself has to say would stand on stdout, which is for reports alone.
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
    """A jar that Spark needs to speak with Kafka is not where the settings say."""


def connector_jars(jars_dir: Path) -> tuple[Path, ...]:
    """Find the jars by which Spark reads and writes Kafka and Avro.

    Raises:
        MissingConnectorError: One is not there.
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
    """Return the part of Spark's configuration that says where the connectors are.

    In one process they stand beside Spark's own jars, for only those classes are archived; the
    executors of a cluster are sent them.
    """
    jars = [str(jar) for jar in connector_jars(settings.jars_dir)]
    if settings.spark_master.startswith("local"):
        return {"spark.driver.extraClassPath": os.pathsep.join(jars)}
    return {"spark.jars": ",".join(jars)}


def archive_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Path:
    """Name the archive of this Java, this Spark and these connectors, beside the connectors.

    One that is empty says that this Java writes none.
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
    """Render the options of a JVM, which has an archive if there is one."""
    archive = archive_of(settings)
    has_archive = archive.is_file() and archive.stat().st_size > 0
    shared = (f"-XX:SharedArchiveFile={archive}",) if has_archive else ()
    return " ".join((*OPTIONS, *shared))


def ready_environment() -> None:
    """Make the JVM that only renders the command of the driver's own a quick one."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
