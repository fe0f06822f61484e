"""The one Spark session of a driver, configured for many jobs."""

import os
import sys
from collections.abc import Mapping

import attrs
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from narthex.settings import Settings
from narthex_spark_apps.platform.jvm import OPTIONS, class_path, java_options, ready_environment
from narthex_spark_apps.platform.scratch import scratch_directory
from narthex_spark_apps.platform.spark_properties import (
    cluster_secret,
    operator_properties,
    require_configured,
    with_properties,
)

LOOPBACK = "127.0.0.1"

_AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
}
"""In one process, Spark draws the secret itself."""

_CONFIGURATION = {
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
        SparkConfigurationError: The properties of the operator are missing or wrong.
    """
    _start_jvm(_configuration(settings))


def _start_jvm(configuration: Mapping[str, str]) -> None:
    """Start the JVM, unless it runs, with these properties as arguments, which `ps` shows."""
    # Workers must use this interpreter and environment: the system's Python lacks the packages.
    os.environ["PYSPARK_PYTHON"] = configuration.get("spark.pyspark.python", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Spark's pages listen on this address; the driver's own addresses are properties.
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    ready_environment()
    conf = SparkConf().setAll(list(configuration.items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 (no public API has it)


def open_session(
    settings: Settings, *, name: str, extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process, with a JVM in its process group.

    The processes of Spark authenticate and encrypt their connections, also on one machine, where
    other accounts may connect to them; on a cluster, the operator's properties may say otherwise.

    Args:
        settings: The settings of the installation.
        name: The name of the application.
        extra: Properties for this application; they win over all others.

    Raises:
        MissingConnectorError: The connectors are not below `settings.jars_dir`.
        SparkConfigurationError: The properties or the secret of the cluster are missing or wrong.
    """
    configuration = {**_configuration(settings), **(extra or {})}
    _start_jvm(configuration)
    builder = SparkSession.builder.appName(name).master(settings.spark_master)
    secret = cluster_secret(settings, submitted_properties())
    # It reaches the JVM over its socket: unlike an argument, `ps` does not show it.
    by_socket = {"spark.authenticate.secret": secret} if secret else {}
    for key, value in {**configuration, **by_socket}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark's callbacks for batch functions use a socket and `select`, which cannot wait on a file
    # descriptor beyond the 1,024th. Opened now, the socket has a low number.
    ensure_callback_server_started(session.sparkContext._gateway)  # noqa: SLF001 (as Spark does)
    return session


def _configuration(settings: Settings) -> dict[str, str]:
    """Return the properties of the platform and of the operator, without any secret."""
    submitted = submitted_properties()
    require_configured(settings, submitted)
    properties = operator_properties(settings, submitted)
    return with_properties(_own(settings, properties), properties)


def submitted_settings(settings: Settings) -> Settings:
    """Return settings with the master that `spark-submit` was given, if it runs this process."""
    master = submitted_properties().get("spark.master")
    return attrs.evolve(settings, spark_master=master) if master else settings


def submitted_properties() -> dict[str, str]:
    """Return the properties that `spark-submit` was given; none if it does not run this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 (it only connects to the JVM that runs)
    return dict(SparkConf().getAll())


def _own(settings: Settings, properties: Mapping[str, str]) -> dict[str, str]:
    spark = settings.home / "spark"
    scratch = scratch_directory(spark)
    where = _in_this_process() if settings.has_local_spark else _on_a_cluster(properties)
    return {
        **_CONFIGURATION,
        **class_path(settings),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{java_options(settings)} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(spark / "warehouse"),
        "spark.ui.enabled": str(settings.spark_ui_port > 0).lower(),
        **({"spark.ui.port": str(settings.spark_ui_port)} if settings.spark_ui_port else {}),
        **where,
    }


def _in_this_process() -> dict[str, str]:
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        **_AUTHENTICATED,
    }


def _on_a_cluster(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": properties["spark.driver.host"],
        "spark.executor.extraJavaOptions": " ".join(OPTIONS),
        # Live jobs, offline queries and backfills share the slots of the executors.
        "spark.scheduler.mode": "FAIR",
        **_AUTHENTICATED,
    }
