"""The one Spark session of a driver: many jobs live in it, so it is set up for them."""

import os
import sys
from collections.abc import Mapping

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.platform.jvm import class_path, java_options, ready_environment

_CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    # Rows that overflow or divide by zero are values with a meaning (docs/decisions), not errors.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "8",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.locality.wait": "0",
    # Else as many as there are slots, which are many.
    "spark.rpc.netty.dispatcher.numThreads": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.cleaner.periodicGC.interval": "10min",
    # A live job is planned anew at each end of its interval, and nothing flows meanwhile: what
    # checks the optimizer's own work costs a quarter of that.
    "spark.sql.lightweightPlanChangeValidation": "false",
    # Spark's own choice starts processes (`readlink`, `chmod`) for each file of a checkpoint: 90 ms
    # of a processor, against 20; a live job writes two of them in each interval.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def open_session(
    settings: Settings, *, name: str, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process, with a JVM of its process group.

    Raises:
        MissingConnectorError: The connectors are not below `settings.jars_dir`.
    """
    # Workers must be this interpreter, with this environment: the system's has no packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    ready_environment()
    builder = SparkSession.builder.appName(name).master(settings.spark_master)
    configuration = {
        **_CONFIGURATION,
        **class_path(settings),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options(settings),
        "spark.local.dir": str(settings.home / "spark"),
        "spark.sql.warehouse.dir": str(settings.home / "spark" / "warehouse"),
        **(extra or {}),
    }
    for key, value in configuration.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark calls functions of batches back by a socket that is waited for with `select`, which
    # knows no file beyond the 1,024th, and then nobody answers. Opened now it is among the first.
    ensure_callback_server_started(session.sparkContext._gateway)  # noqa: SLF001 (as Spark does)
    return session
