"""A large backfill runs through Airflow's Spark provider, where the connection says."""

import datetime as dt
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from narthex.client import Client
from narthex.connectors import CSV, Files, source
from narthex.datasets import Count, Rows, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.expr import col
from narthex.featuresets import feature, featureset
from narthex.lib import inputs
from narthex_stack.operator.stack import Stack
from tests.spark_cluster import SparkCluster

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.slow]

__owner__ = "visits@narthex.dev"

WITHIN_S = 400.0
ROWS = 300
PAGES = 10


def project() -> tuple[Sequence[type], Sequence[type]]:
    """Declare datasets whose history is in a file."""

    @source(Files(name="archive").path("visits.csv", format=CSV()), disorder="1d", cdc="append")
    @dataset
    class Visits:
        page: str
        at: datetime

    @dataset(index=True)
    class Views:
        page: str = field(key=True)
        visits: int
        at: datetime

        @pipeline
        @inputs(Visits)
        def by_page(cls, visits: Rows) -> Rows:  # noqa: N805 - an author's
            real = visits.filter(col("page") != "p0")
            return real.groupby("page").aggregate(visits=Count(window=Continuous("forever")))

    @featureset
    class Page:
        page: str
        visits: int = feature(Views.visits, default=0)

    return (Visits, Views), (Page,)


def write_visits(path: Path) -> None:
    began = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    lines = [
        f"p{number % PAGES},{(began + dt.timedelta(seconds=number)).isoformat()}"
        for number in range(ROWS)
    ]
    path.write_text("\n".join(["page,at", *lines]) + "\n")


@pytest.mark.parametrize("place", ["local", "cluster"])
def test_the_connection_alone_names_the_master_of_a_large_backfill(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_cluster: SparkCluster
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    write_visits(tmp_path / "visits.csv")
    of_cluster = spark_cluster.configuration()
    config = {
        "driver_backfill_rows": "1",
        "spark_conf": of_cluster["spark_conf"],
        "spark_secret_file": of_cluster["spark_secret_file"],
    }
    (home / "config.toml").write_text(
        "".join(f'{name} = "{value}"\n' for name, value in config.items())
    )
    master = spark_cluster.master if place == "cluster" else "local[2]"
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_NARTHEX", json.dumps({"conn_type": "spark", "host": master})
    )
    before = len(spark_cluster.page()["completedapps"])
    datasets, featuresets = project()

    with Stack(home, files_root=tmp_path) as stack:
        client = Client(stack.settings.server_url, stack.settings.token)
        client.commit("visits", datasets, featuresets, timeout_s=WITHIN_S)
        found, _ = client.query_columns(["Page.page"], ["Page.visits"], {"Page.page": ["p0", "p1"]})
        ran = spark_cluster.page()["completedapps"][before:]
        client.close()

        assert stack.settings.has_local_spark
    assert found["Page.visits"] == [0, ROWS // PAGES]
    names = [one["name"].split()[:2] for one in ran]
    assert names == ([["narthex", "backfill"]] if place == "cluster" else [])
