"""`narthex quarantine` and `narthex late` on what a commit made; sinks are among its jobs."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner, Result

from narthex._ir.assets import PipelineJobSpec, SinkJobSpec, SourceJobSpec
from narthex._sdk.commit_definitions import definitions
from narthex.cli import make_app
from narthex.connectors import Kafka, sink
from narthex.datasets import dataset, field, pipeline
from narthex.lib import inputs
from narthex.settings import environment_of
from narthex_server.operations.job_status import job_rows
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import deploy
from tests.server.shop import Orders, shop
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

__owner__ = "shop@narthex.dev"

GOOD = {"user": "ann", "amount": 2.5, "ordered_at": "2026-01-02T03:04:05Z", "test": False}
EARLY = {**GOOD, "ordered_at": "2025-12-24T00:00:00Z"}


@sink(Kafka("bus", "").topic("told"), cdc="debezium")
@dataset(index=True)
class LastOrders:
    """The last purchase of each user."""

    user: str = field(key=True)
    amount: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def newest(cls, orders: Any) -> Any:  # noqa: N805
        return orders.groupby("user").latest()


@dataset
class Ranks:
    """Purchases of known users: there are none."""

    user: str
    rank: int
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def ranked(cls, orders: Any) -> Any:  # noqa: N805
        ranked = orders.assign(
            "rank", int, lambda df: df["user"].map(lambda user: {"eve": 1}[user])
        )
        return ranked.drop("amount")


@pytest.fixture(scope="module")
def open_shop(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """A shop whose orders have been read: two refused, one late."""
    home = tmp_path_factory.mktemp("shop")
    # Shops of several modules share a broker.
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap), install_id="rows0000"
    )
    settings.policy_file.write_text('[[topics]]\nname = "told"\nbranches = ["*"]\nwrite = true\n')
    datasets, featuresets = shop()
    with house_at(settings) as house:
        deploy(house.client, definitions([*datasets, LastOrders, Ranks], featuresets))
        topic = house.services.snapshots.head("main").topic("webhook/shop/orders/ingest")
        calls = [[GOOD], [{**GOOD, "amount": "much"}, EARLY], ["no row"]]
        for rows in calls:
            value = json.dumps({"rows": rows}).encode()
            house.services.producer.append(topic, value=value).result(timeout=30)
        for job in house.ledger.jobs.all():
            spec = job.asset.spec
            if isinstance(spec, SourceJobSpec) and spec.dataset == "Orders":
                with spark_jobs.live_asset(job.asset, settings) as running:
                    spark_jobs.wait_caught_up(running, len(calls))
        for job in house.ledger.jobs.all():
            if isinstance(job.asset.spec, PipelineJobSpec) and job.asset.spec.dataset == "Ranks":
                with spark_jobs.live_asset(job.asset, settings) as running:
                    spark_jobs.wait_caught_up(running, 2)
        yield house


@pytest.fixture
def run(open_shop: House, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on the shop's platform."""
    for name, value in environment_of(open_shop.services.settings).items():
        monkeypatch.setenv(name, value)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(make_app(), list(arguments))

    return invoke


def test_a_sink_is_among_the_jobs_of_a_commit(open_shop: House) -> None:
    specs = [job.asset.spec for job in open_shop.ledger.jobs.all()]
    labels = [row["label"] for row in job_rows(open_shop.ledger.jobs.all())]

    (found,) = [spec for spec in specs if isinstance(spec, SinkJobSpec)]
    assert found.dataset == "LastOrders"
    assert "LastOrders → kafka:/told" in labels


def test_refused_rows_are_listed_shown_repaired_and_gone(run: Any, tmp_path: Path) -> None:
    listed = json.loads(run("quarantine", "list", "Orders", "--json").stdout)
    shown = json.loads(run("quarantine", "show", "Orders", listed[0]["row"]).stdout)
    repaired = tmp_path / "row.json"
    repaired.write_text(json.dumps(GOOD))
    refused = run("quarantine", "replay", "Orders", "--all", "--json")
    replayed = run("quarantine", "replay", "Orders", listed[0]["row"], "--payload", str(repaired))
    left = json.loads(run("quarantine", "list", "Orders", "--json").stdout)

    assert [(row["ordinal"], row["field"]) for row in listed] == [(0, "amount"), (0, None)]
    assert listed[1]["offset"] == listed[0]["offset"] + 1
    assert json.loads(shown["payload"])["amount"] == "much"
    assert refused.exit_code == 1
    assert {one["outcome"] for one in json.loads(refused.stdout)} == {"rejected"}
    assert replayed.exit_code == 0, replayed.output
    assert f"{listed[0]['row']}  accepted" in replayed.stdout
    assert [row["row"] for row in left] == [listed[1]["row"]]


def test_rows_on_which_code_failed_are_listed_with_its_line_and_not_replayed(run: Any) -> None:
    listed = json.loads(run("quarantine", "list", "Ranks", "--json").stdout)
    people = run("quarantine", "list", "Ranks").stdout
    shown = json.loads(run("quarantine", "show", "Ranks", listed[0]["row"]).stdout)
    replayed = run("quarantine", "replay", "Ranks", "--all")

    assert {row["pipeline"] for row in listed} == {"Ranks.ranked"}
    assert {row["step"] for row in listed} == {"`assign` of `rank` in `Ranks.ranked`"}
    assert "failed: KeyError: 'ann'" in listed[0]["reason"]
    assert listed[0]["file"].endswith("test_row_commands.py")
    assert f"pipeline Ranks.ranked {listed[0]['file']}:{listed[0]['line']}" in people
    assert json.loads(shown["payload"])["user"] == "ann"
    assert replayed.exit_code != 0
    assert "failed in the pipeline `Ranks.ranked`" in str(replayed.exception or replayed.output)


def test_late_rows_are_listed_with_the_datasets_that_they_changed(run: Any) -> None:
    found = json.loads(run("late", "Orders", "--json").stdout)
    told = run("late", "Orders")
    *_, refused_after_it = json.loads(run("quarantine", "list", "Orders", "--json").stdout)

    (late,) = found
    assert (late["source"], late["ordinal"]) == ("webhook:shop/orders", 1)
    assert late["offset"] == refused_after_it["offset"] - 1
    assert late["event_time"] == "2025-12-24T00:00:00.000000Z"
    assert late["changed_datasets"] == ["LastOrders", "Ranks", "Spend"]
    assert "1 rows came late" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("quarantine", "list", "Nothing"), "has no dataset `Nothing`"),
        (("quarantine", "list", "Spend"), "`Spend` has no quarantine"),
        (("quarantine", "show", "Orders", "abc"), "no row in quarantine is named abc"),
        (("quarantine", "replay", "Orders"), "no rows are given"),
        (("late", "Spend"), "`Spend` has no source"),
    ],
)
def test_contradictory_definitions_are_refused(
    run: Any, arguments: tuple[str, ...], says: str
) -> None:
    result = run(*arguments)

    assert result.exit_code == 1
    assert says in str(result.exception)
