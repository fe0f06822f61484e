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


PORTS = """
import attrs, os, socket
from pathlib import Path
from narthex._processes import in_sessions, process_of
from narthex.settings import load_settings
from narthex_spark_apps.platform.session import open_session

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
settings = attrs.evolve(load_settings(), spark_ui_port=port)
session = open_session(settings, name="ports")
session.sparkContext.parallelize(range(4), 4).map(str).count()
jvm = session.sparkContext._gateway.proc.pid
members = [jvm, *(int(p) for p in Path(f"/proc/{jvm}/task/{jvm}/children").read_text().split())]
held = {os.readlink(link) for pid in members for link in Path(f"/proc/{pid}/fd").iterdir()}
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in held:
            listening.append(local)
print(f":{port:04X}" in {local[-5:] for local in listening}, *listening, flush=True)
os._exit(0)
"""
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_all_ports_of_a_driver_are_bound_to_loopback_and_its_pages_are_among_them(
    settings_of: Settings,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PORTS],
        env={**os.environ, **environment_of(settings_of)},
        capture_output=True,
        text=True,
        check=False,
    )
    has_pages, *listening = done.stdout.split()

    assert has_pages == "True", done.stderr[-2000:]
    assert {address.partition(":")[0] for address in listening} <= _LOOPBACK


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
