"""The Spark session of a driver, in a process that has many files open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from narthex.settings import Settings, environment_of

pytestmark = pytest.mark.spark

MANY_FILES = """
import os, sys
from pathlib import Path
from narthex.settings import load_settings
from narthex_spark_apps.platform.session import open_session

session = open_session(load_settings(), name="many files")
files = [open(os.devnull) for _ in range(1_100)]
seen = []
rows = session.readStream.format("text").load(sys.argv[1])
query = (
    rows.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
    .option("checkpointLocation", sys.argv[2])
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination(90)
print(max(file.fileno() for file in files) > 1_023, sum(seen), flush=True)
os._exit(0)
"""


def test_batches_are_handed_to_python_however_many_files_are_open(
    settings_of: Settings, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "one.txt").write_text("a\nb\nc\n")

    done = subprocess.run(
        [sys.executable, "-c", MANY_FILES, str(tmp_path / "rows"), str(tmp_path / "checkpoint")],
        env={**os.environ, **environment_of(settings_of)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["True", "3"], done.stderr[-2000:]
