"""Python workers of Spark: their environment, and the causes of their errors."""

import re

from pyspark import SparkContext

CAUSE_LENGTH = 500
_PYTHON_ERROR = re.compile(r"(?!(?:org|java|scala|py4j)\.)[\w.]+(?:Error|Exception|Exit)\b")
_SPARK_CAUSE = "Caused by: org.apache.spark.SparkException:"


def with_environment(context: SparkContext, environment: dict[str, str]) -> SparkContext:
    """Return the same context, whose Python workers have these environment variables besides.

    PySpark takes the variables from the context when it starts a job. A change of the context
    itself would reach the jobs that other threads start at that moment.
    """
    found: SparkContext = object.__new__(type(context))
    vars(found).update(vars(context))
    found.environment = {**context.environment, **environment}
    return found


def cause_of(error: Exception) -> str:
    """Return the line of a long error of Spark that names its cause: Python's, else Spark's own."""
    lines = [line.strip() for line in str(error).splitlines()]
    in_python = [line for line in lines if _PYTHON_ERROR.match(line)]
    in_spark = [line for line in lines if line.startswith(_SPARK_CAUSE)]
    causes = in_python[-1:] or in_spark or lines or [type(error).__name__]
    return causes[0].removeprefix(_SPARK_CAUSE).strip()[:CAUSE_LENGTH]
