"""A driver whose application has lost its executors for good ends, and is started again."""

import pytest

from narthex_spark_apps.jobs.application import SparkStoppedError
from narthex_spark_apps.jobs.engine_watch import WITHOUT_EXECUTORS_S, ExecutorWatch

BEGIN = 1000.0
LATE = BEGIN + WITHOUT_EXECUTORS_S + 1


def test_an_application_that_has_lost_its_executors_for_too_long_is_refused() -> None:
    watch = ExecutorWatch()
    watch.require(2, now=BEGIN)
    watch.require(0, now=BEGIN + WITHOUT_EXECUTORS_S - 1)

    with pytest.raises(SparkStoppedError, match=r"no executor for 60 s.*recoveryMode"):
        watch.require(0, now=LATE)


def test_executors_that_are_replaced_in_time_are_enough() -> None:
    watch = ExecutorWatch()
    watch.require(2, now=BEGIN)
    watch.require(0, now=LATE - 2)
    watch.require(1, now=LATE - 1)

    watch.require(0, now=LATE)


def test_an_application_waits_for_its_first_executor_without_limit() -> None:
    ExecutorWatch().require(0, now=BEGIN)
    watch = ExecutorWatch()
    watch.require(0, now=BEGIN)

    watch.require(0, now=LATE)
