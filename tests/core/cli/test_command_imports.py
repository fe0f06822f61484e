"""The imports of commands: help loads nothing slow, and a run loads what it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.render_commands import commands

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:1"
FRAMES = {"pandas", "polars", "numpy", "pyarrow"}
SLOW = FRAMES | {"sqlalchemy", "pyspark", "great_expectations", "airflow", "httpx"}
SLOW |= {"narthex._sdk", "narthex.client", "narthex_ledger", "narthex_stores"}
RUN = """
import contextlib, io, json, sys
from narthex.cli import main

calls, slow = json.loads(sys.argv[1])
found = {}
for call in calls:
    sys.argv = ["narthex", *call]
    said = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    found[" ".join(call)] = [code, said.getvalue(), sorted({*slow} & sys.modules.keys())]
print(json.dumps(found))
"""
"""Runs commands one after the other; what one imported, those after it have as well."""

SMALL = """
from datetime import datetime

from narthex.connectors import Webhook, source
from narthex.datasets import Count, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.lib import inputs

__owner__ = "shop@narthex.dev"


@source(Webhook("app").endpoint("orders"), disorder="1h", cdc="append")
@dataset
class Order:
    user: int
    amount: float
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Large:
    user: int = field(key=True)
    orders: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Order)
    def total(cls, orders):
        large = orders.filter(col("amount") > 10.0)
        return large.groupby("user").aggregate(orders=Count(window=Continuous("1d")))
"""


def run(
    calls: list[list[str]], slow: set[str], home: Path
) -> dict[str, tuple[int, str, list[str]]]:
    """Run commands in one fresh process; return exit code, output and slow modules of each."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([calls, sorted(slow)])],
        cwd=home,
        env={**os.environ, "NARTHEX_HOME": str(home / "none"), "NARTHEX_URL": NOBODY},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: tuple(of) for name, of in json.loads(done.stdout).items()}


def test_the_help_of_no_command_imports_what_only_its_run_needs(tmp_path: Path) -> None:
    words = [list(each) for each, _ in commands()]
    groups = [list(each) for each in dict.fromkeys((one[0],) for one in words if len(one) > 1)]

    found = run([[*each, "--help"] for each in [*groups, *words]], SLOW, tmp_path)

    assert len(found) > 60
    assert {
        name for name, (code, said, _) in found.items() if code or "Usage:" not in said
    } == set()
    assert {name: slow for name, (_, _, slow) in found.items() if slow} == {}


def test_a_check_of_definitions_loads_no_frames(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text(SMALL)

    found = run([["check", "features.py"]], FRAMES | {"sqlalchemy", "httpx"}, tmp_path)

    code, said, slow = found["check features.py"]
    assert (code, slow) == (0, []), said
    assert "2 datasets, 0 featuresets: sound" in said


@pytest.mark.parametrize("command", ["commits", "branch list", "status"])
def test_a_command_without_rows_loads_no_frames(command: str, tmp_path: Path) -> None:
    found = run([command.split()], FRAMES | {"sqlalchemy", "narthex_stores"}, tmp_path)

    code, said, slow = found[command]
    assert slow == []
    assert code in {1, 3}
    assert "narthex up" in " ".join(said.split())
