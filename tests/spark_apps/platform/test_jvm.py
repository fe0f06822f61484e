"""The start of a driver's JVM: its options, the paths of its connectors, its archive."""

import os
from pathlib import Path

import attrs
import pytest

from narthex.settings import Settings
from narthex_spark_apps.platform.jvm import (
    MissingConnectorError,
    archive_of,
    class_path,
    connector_jars,
    java_options,
)

NAMES = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
    "spark-avro_2.13-4.1.1.jar",
)


@pytest.fixture
def found(tmp_path: Path, settings_of: Settings) -> Settings:
    """Return settings whose jars are named as they should be, and are empty."""
    jars = tmp_path / "jars" / "spark"
    jars.mkdir(parents=True)
    for name in NAMES:
        (jars / name).touch()
    return attrs.evolve(settings_of, jars_dir=jars, spark_master="local[4]")


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """Return a home of a Java that only lies there."""
    binary = tmp_path / "java" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("a program")
    return binary


def with_java(java: Path) -> dict[str, str]:
    return {"JAVA_HOME": str(java.parents[1])}


def test_a_connector_that_is_not_there_is_named(found: Settings) -> None:
    """Say which pattern nothing matches."""
    (found.jars_dir / NAMES[2]).unlink()
    with pytest.raises(MissingConnectorError, match=r"has no `kafka-clients-\*\.jar`"):
        connector_jars(found.jars_dir)


def test_connectors_are_on_the_class_path_of_the_process(found: Settings) -> None:
    """Only classes of the application's own class path are archived."""
    expected = os.pathsep.join(str(found.jars_dir / name) for name in NAMES)
    assert class_path(found) == {"spark.driver.extraClassPath": expected}


def test_executors_of_a_cluster_are_sent_the_connectors(found: Settings) -> None:
    """There they are on no class path."""
    far = attrs.evolve(found, spark_master="spark://elsewhere:7077")
    assert class_path(far) == {"spark.jars": ",".join(str(found.jars_dir / n) for n in NAMES)}


def test_another_java_or_another_connector_has_another_archive(
    found: Settings, java: Path, tmp_path: Path
) -> None:
    """An archive fits nothing but what wrote it."""
    first = archive_of(found, with_java(java))
    assert first.parent == found.jars_dir.parent
    assert first == archive_of(found, with_java(java))
    java.write_text("a newer program")
    newer = archive_of(found, with_java(java))
    (found.jars_dir / NAMES[4]).rename(found.jars_dir / "spark-avro_2.13-4.2.0.jar")
    other_jars = archive_of(found, with_java(java))
    nowhere = archive_of(found, {"JAVA_HOME": str(tmp_path / "nowhere")})
    assert len({first, newer, other_jars, nowhere}) == 4


def test_an_existing_archive_is_used(found: Settings) -> None:
    """Without one, and with an empty one, the JVM reads its jars."""
    plain = java_options(found)
    assert "SharedArchiveFile" not in plain
    archive = archive_of(found)
    archive.touch()
    assert java_options(found) == plain
    archive.write_bytes(b"classes")
    assert java_options(found) == f"{plain} -XX:SharedArchiveFile={archive}"
