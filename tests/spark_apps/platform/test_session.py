"""The Spark session of a driver: its code cache, its ports, and many open files."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from narthex.settings import Settings, environment_of
from narthex_spark_apps.platform.jvm import CODE_CACHE_BYTES

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = """
import attrs, contextlib, json, os, socket, struct, sys
from pathlib import Path
from narthex.settings import load_settings
from narthex_spark_apps.platform.session import open_session

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
settings = attrs.evolve(load_settings(), spark_ui_port=port)
session = open_session(settings, name="a driver")

factory = session._jvm.java.lang.management.ManagementFactory
pools = [pool for pool in factory.getMemoryPoolMXBeans() if "Code" in pool.getName()]
code_cache_bytes = sum(pool.getUsage().getMax() for pool in pools)

session.sparkContext.parallelize(range(4), 4).map(str).count()
jvm = session.sparkContext._gateway.proc.pid
members = [jvm, *(int(p) for p in Path(f"/proc/{jvm}/task/{jvm}/children").read_text().split())]
links = [link for pid in members for link in Path(f"/proc/{pid}/fd").iterdir()]
held = set()
for link in links:
    # A file may be closed meanwhile.
    with contextlib.suppress(FileNotFoundError):
        held.add(os.readlink(link))
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in held:
            listening.append(local)

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
system = session._jvm.java.lang.System

# A request of Spark's protocol without a login: a frame, its type, a number, and a body.
request = struct.pack(">bqi", 3, 7, 1) + b"x"
replies = []
for local in listening:
    stranger = socket.create_connection(("127.0.0.1", int(local[-4:], 16)), 5)
    with contextlib.suppress(OSError), stranger:
        stranger.settimeout(3)
        stranger.sendall(struct.pack(">q", len(request) + 8) + request)
        replies.append(stranger.recv(10_000).decode(errors="replace"))
found = {
    "temporary": [system.getProperty("java.io.tmpdir"), session.conf.get("spark.local.dir")],
    "code_cache_bytes": code_cache_bytes,
    "has_pages": f":{port:04X}" in {local[-5:] for local in listening},
    "listening": listening,
    "has_many_files": max(file.fileno() for file in files) > 1_023,
    "rows": sum(seen),
    "replies": replies,
}
print(json.dumps(found), flush=True)
os._exit(0)
"""
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@attrs.frozen(kw_only=True)
class DriverFacts:
    """The facts that a driver reports of itself.

    Attributes:
        temporary: The directories of temporary files of its JVM, and of Spark.
        code_cache_bytes: The most that its JVM stores of compiled code.
        has_pages: Whether Spark's pages are at the configured port.
        listening: The addresses on which its processes listen, as the kernel renders them.
        has_many_files: Whether it has more open files than `select` can watch.
        rows: The number of rows that Python then received from a query.
        replies: The replies of its ports to a request of Spark without a login.
    """

    temporary: Sequence[str]
    code_cache_bytes: int
    has_pages: bool
    listening: Sequence[str]
    has_many_files: bool
    rows: int
    replies: Sequence[str]


@pytest.fixture(scope="module")
def driver(settings_of: Settings, tmp_path_factory: pytest.TempPathFactory) -> DriverFacts:
    """Run one driver for all tests of this module: its start is what they cost."""
    place = tmp_path_factory.mktemp("driver")
    (place / "rows").mkdir()
    (place / "rows" / "one.txt").write_text("a\nb\nc\n")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(place / "rows"), str(place / "checkpoint")],
        env={**os.environ, **environment_of(settings_of)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return DriverFacts(**json.loads(done.stdout))


def test_a_driver_reserves_the_code_cache_that_is_configured(driver: DriverFacts) -> None:
    assert driver.code_cache_bytes == CODE_CACHE_BYTES


def test_temporary_files_are_below_the_home(driver: DriverFacts, settings_of: Settings) -> None:
    of_jvm, of_spark = map(Path, driver.temporary)

    assert of_jvm == of_spark
    assert of_jvm.parent == settings_of.home / "spark"


def test_all_ports_of_a_driver_are_bound_to_loopback_and_its_pages_are_among_them(
    driver: DriverFacts,
) -> None:
    assert driver.has_pages
    assert {address.partition(":")[0] for address in driver.listening} <= _LOOPBACK


def test_a_driver_on_one_machine_refuses_processes_without_its_secret(driver: DriverFacts) -> None:
    answered = [reply for reply in driver.replies if "org.apache.spark" in reply]

    assert len(answered) >= 2  # those of the driver and of its blocks
    assert [reply for reply in answered if "SASL" not in reply.upper()] == []


def test_batches_are_handed_to_python_however_many_files_are_open(driver: DriverFacts) -> None:
    assert driver.has_many_files
    assert driver.rows == 3
