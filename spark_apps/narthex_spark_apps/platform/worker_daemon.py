"""Spark's daemon of Python workers, which has imported what most workers need.

Spark runs it by `spark.python.daemon.module`, as `python -m`, and has it fork each worker. A worker
then starts in a fraction of a second, and shares the memory of these modules. A fork copies only
the thread that forks, so nothing is imported here that starts threads, as polars, pyarrow and
pandas do.
"""

import gc
import importlib
import os
import sys

from narthex._runtime.template import template

PRELOADED = (
    "pyspark.worker",
    "pyspark.sql.streaming",
    "confluent_kafka.admin",
    "lmdb",
    "redis.cluster",
    "structlog",
    "narthex._analysis.policy",
    "narthex._aggregates",
    "narthex._connectors",
    "narthex._expr.python",
    "narthex._formats.avro",
    "narthex._runtime.ingest",
    "narthex_spark_apps.expressions",
    "narthex_spark_apps.platform.author_secrets",
    "narthex_spark_apps.supervision.supervised_runner",
)
"""Modules that start no thread."""


def main() -> None:
    """Import, then fork workers until Spark closes stdin."""
    # Spark puts archives of its sources first, from which every import is compiled anew.
    sys.path.sort(key=lambda path: path.endswith(".zip"))
    # Otherwise numpy starts threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in PRELOADED:
        importlib.import_module(name)
    template()  # the workers of author code of all forked processes come from one template
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
