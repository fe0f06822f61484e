"""A sample of generated projects matches the reference on a standalone cluster, too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_generated_projects_match_the_reference_on_a_cluster(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    options = ("--master", "cluster", "--n", "4", "--at-once", "4", "--seed", "3")
    jobs = ("--jobs", "on-spark", "--kafka", kafka_bootstrap, "--programs", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "tests.differential", *options, *jobs, "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert (found["projects"], found["differ"]) == (4, [])
    assert found["counts"]["backfill"] == 4
