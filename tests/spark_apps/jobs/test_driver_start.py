"""A driver starts its JVM first, and a process of live jobs imports no client of the ledger."""

import json
import subprocess
import sys

import pytest

from narthex_spark_apps.jobs.application import STANDING_TASKS
from narthex_spark_apps.jobs.driver_start import DRIVER

pytestmark = pytest.mark.slow

IMPORTED = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps([name for name in sys.modules if "." not in name]))
"""
STARTS = "narthex_spark_apps.jobs.driver_start"


def imported_by(module: str) -> set[str]:
    """Return the packages that a new process has after it imported a module."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, module], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_a_driver_starts_its_jvm_before_it_imports_what_its_jobs_need() -> None:
    assert not {"narthex_stores", "polars", "pyarrow", "confluent_kafka"} & imported_by(STARTS)


@pytest.mark.parametrize(
    "module", [DRIVER, *(make.partition(":")[0] for make in STANDING_TASKS.values())]
)
def test_processes_of_live_jobs_do_not_import_the_ledger(module: str) -> None:
    assert not {"narthex_ledger", "sqlalchemy", "alembic"} & imported_by(module)
