"""The one Spark session of a driver, configured for many jobs."""

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.platform.jvm import class_path, java_options, ready_environment

_CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    # Overflow and division by zero yield values with a meaning (docs/decisions), not errors.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "8",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.locality.wait": "0",
    "spark.python.daemon.module": "narthex_spark_apps.platform.worker_daemon",
    # The default is the number of slots, which is large.
    "spark.rpc.netty.dispatcher.numThreads": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.cleaner.periodicGC.interval": "10min",
    # A live job is planned anew at each end of its interval, during which no rows flow: the checks
    # of the optimizer's own work take a quarter of that time.
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Spark's default starts processes (`readlink`, `chmod`) for each checkpoint file: 90 ms of CPU
    # time instead of 20; a live job writes two such files in each interval.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def start_jvm(settings: Settings) -> None:
    """Start the JVM of this process, unless it runs already; `open_session` then uses it.

    Raises:
        MissingConnectorError: The connectors are not below `settings.jars_dir`.
        PySparkRuntimeError: The JVM ended at once.
    """
    _ready_environment()
    conf = SparkConf().setAll(list(_configuration(settings).items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 (no public API has it)


def open_session(
    settings: Settings, *, name: str, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process, with a JVM in its process group.

    Raises:
        MissingConnectorError: The connectors are not below `settings.jars_dir`.
    """
    _ready_environment()
    builder = SparkSession.builder.appName(name).master(settings.spark_master)
    for key, value in {**_configuration(settings), **(extra or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark's callbacks for batch functions use a socket and `select`, which cannot wait on a file
    # descriptor beyond the 1,024th. Opened now, the socket has a low number.
    ensure_callback_server_started(session.sparkContext._gateway)  # noqa: SLF001 (as Spark does)
    return session


def _ready_environment() -> None:
    # Workers must use this interpreter and environment: the system's Python lacks the packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    ready_environment()


def _configuration(settings: Settings) -> dict[str, str]:
    return {
        **_CONFIGURATION,
        **class_path(settings),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(settings),
        "spark.local.dir": str(settings.home / "spark"),
        "spark.sql.warehouse.dir": str(settings.home / "spark" / "warehouse"),
    }
