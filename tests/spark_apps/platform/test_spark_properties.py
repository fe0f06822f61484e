"""The operator's properties of Spark: read, joined with ours, and refused before Spark starts."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from narthex.settings import Settings
from narthex_spark_apps.platform.spark_properties import (
    SparkConfigurationError,
    cluster_secret,
    read_properties,
    require_configured,
    with_properties,
)

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of properties, and returns its path."""

    def written(text: str) -> str:
        path = tmp_path / "spark.conf"
        path.write_text(text)
        return str(path)

    return written


@pytest.fixture
def cluster(settings_of: Settings, write: Write, tmp_path: Path) -> Settings:
    """Return complete settings of a standalone cluster."""
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("of the cluster\n")
    return attrs.evolve(
        settings_of,
        spark_master="spark://m:7077",
        spark_conf=write("spark.driver.host d"),
        spark_secret_file=str(secret),
    )


def test_a_file_has_the_format_of_spark_itself(write: Write) -> None:
    text = "# a comment\n\nspark.a  1 2\nspark.b=x=y\n spark.c : z \n! another comment\n"

    assert read_properties(write(text)) == {"spark.a": "1 2", "spark.b": "x=y", "spark.c": "z"}
    assert read_properties("") == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("spark.executor.memory", "line 2: `spark.executor.memory` has no value"),
        ("spark.master local", "set `NARTHEX_SPARK_MASTER` instead"),
        ("spark.authenticate.secret x", "`NARTHEX_SPARK_SECRET_FILE` names"),
        ("spark.ui.port 1", "set `NARTHEX_SPARK_UI_PORT` instead"),
        ("spark.sql.session.timeZone CET", "results depend on it"),
    ],
)
def test_a_line_that_cannot_count_is_refused(write: Write, line: str, message: str) -> None:
    with pytest.raises(SparkConfigurationError, match="line 2") as refused:
        read_properties(write(f"spark.a 1\n{line}\n"))

    assert message in str(refused.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkConfigurationError, match="NARTHEX_SPARK_CONF"):
        read_properties(str(tmp_path / "nowhere"))


def test_properties_of_the_operator_win_and_lists_are_joined() -> None:
    ours = {"spark.a": "1", "spark.jars": "k.jar", "spark.executor.extraJavaOptions": ""}
    theirs = {"spark.a": "2", "spark.jars": "m.jar", "spark.executor.extraJavaOptions": "-Xss1m"}

    assert with_properties(ours, theirs) == {
        "spark.a": "2",
        "spark.jars": "k.jar,m.jar",
        "spark.executor.extraJavaOptions": "-Xss1m",
    }


def test_a_complete_cluster_is_accepted_and_has_its_secret(cluster: Settings) -> None:
    require_configured(cluster)

    assert cluster_secret(cluster) == "of the cluster"
    assert "of the cluster" not in repr(cluster)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spark_conf": ""}, "`spark.driver.host`"),
        ({"spark_secret_file": ""}, "set `NARTHEX_SPARK_SECRET_FILE`"),
        ({"spark_secret_file": "/nowhere"}, "No such file"),
    ],
)
def test_an_incomplete_cluster_is_refused(
    cluster: Settings, change: dict[str, str], message: str
) -> None:
    with pytest.raises(SparkConfigurationError) as refused:
        require_configured(attrs.evolve(cluster, **change))

    assert message in str(refused.value)


def test_a_secret_that_others_may_read_is_refused(cluster: Settings) -> None:
    Path(cluster.spark_secret_file).chmod(0o640)

    with pytest.raises(SparkConfigurationError, match="chmod 600"):
        require_configured(cluster)


def test_a_secret_that_is_empty_is_refused(cluster: Settings) -> None:
    Path(cluster.spark_secret_file).write_text("\n")

    with pytest.raises(SparkConfigurationError, match="is empty"):
        require_configured(cluster)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://h:6443", "local[4]"])
def test_a_secret_is_needed_by_standalone_clusters_only(cluster: Settings, master: str) -> None:
    other = attrs.evolve(cluster, spark_master=master, spark_secret_file="")
    require_configured(other)

    assert cluster_secret(other) == ""
    assert other.has_local_spark == master.startswith("local")
