"""The class archive: written by real queries on a real broker, and mapped by the next JVM."""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from confluent_kafka.admin import AdminClient

from narthex.settings import Settings, environment_of
from narthex_spark_apps import archive_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MAPS = """
import os
from pathlib import Path
from narthex.settings import load_settings
from narthex_spark_apps.platform.session import open_session

session = open_session(load_settings(), name="mapped")
number = int(session._jvm.java.lang.ProcessHandle.current().pid())
print(Path(f"/proc/{number}/maps").read_text())
"""


@pytest.fixture
def machine(platform: Settings, tmp_path: Path) -> Settings:
    """Return settings of a machine that has the connectors, and no archive."""
    jars = tmp_path / "jars" / "spark"
    jars.mkdir(parents=True)
    for jar in platform.jars_dir.glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    return attrs.evolve(platform, jars_dir=jars)


def run(machine: Settings, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **environment_of(machine)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_next_driver_maps_what_was_archived(machine: Settings) -> None:
    """Nothing is left on the broker, and a second call writes nothing."""
    topics = AdminClient({"bootstrap.servers": machine.kafka}).list_topics
    archive = archive_of(machine)
    assert not archive.exists()

    said = run(machine, "-m", "narthex_spark_apps.platform.class_archive")

    assert said.splitlines()[-1] == str(archive)
    assert str(archive) in run(machine, "-c", MAPS)
    assert not [name for name in topics(timeout=10).topics if name.startswith("nx_classes_")]
    assert {path.name for path in archive.parent.iterdir()} == {archive.name, "spark"}

    written = archive.stat().st_mtime_ns
    run(machine, "-m", "narthex_spark_apps.platform.class_archive")
    assert archive.stat().st_mtime_ns == written
