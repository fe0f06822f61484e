"""Quarantined and late rows by commands, routes and pages; sinks are among the jobs."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner, Result

from docs.reference_examples import examples_of
from narthex._ir.assets import PipelineJobSpec, SinkJobSpec, SourceJobSpec
from narthex._sdk.commit_definitions import definitions
from narthex.cli import make_app
from narthex.client import Client
from narthex.connectors import Kafka, sink
from narthex.datasets import dataset, field, pipeline
from narthex.lib import expect_column_values_to_be_between, expectations, inputs, meta
from narthex_server.app import make_app as make_server
from narthex_server.operations.job_status import job_rows
from narthex_stack.machine.ports import free_ports
from tests.guides.pages import DOCS, sessions, shows
from tests.guides.terminal import Terminal
from tests.server.conftest import TOKEN, House, house_at, settings_at
from tests.server.driving import deploy
from tests.server.listening import listening
from tests.server.shop import Orders, shop
from tests.sessions import differences, run_by
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]


__owner__ = "shop@narthex.dev"

SOURCES = DOCS / "guide" / "sources.md"
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


@meta(tags=["ranking"])
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


@dataset
class SmallOrders:
    """Purchases of an amount below two: there are none."""

    user: str
    amount: float
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Orders)
    def small(cls, orders: Any) -> Any:  # noqa: N805
        return orders

    @expectations
    def quality(cls) -> Any:  # noqa: N805
        return [expect_column_values_to_be_between("amount", max_value=2, action="quarantine")]


@pytest.fixture(scope="module")
def open_shop(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    """A shop whose orders have been read: two refused, one late."""
    home = tmp_path_factory.mktemp("shop")
    # Shops of several modules share a broker.
    (port,) = free_ports(1)
    settings = attrs.evolve(
        settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap),
        install_id="rows0000",
        server_url=f"http://127.0.0.1:{port}",
    )
    settings.policy_file.write_text('[[topics]]\nname = "told"\nbranches = ["*"]\nwrite = true\n')
    datasets, featuresets = shop()
    with house_at(settings) as house:
        deploy(house.client, definitions([*datasets, LastOrders, Ranks, SmallOrders], featuresets))
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
            spec = job.asset.spec
            if isinstance(spec, PipelineJobSpec) and spec.dataset in {"Ranks", "SmallOrders"}:
                with spark_jobs.live_asset(job.asset, settings) as running:
                    spark_jobs.wait_caught_up(running, 2)
        with listening(make_server(house.services), port):
            yield house


@pytest.fixture
def run(open_shop: House, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on the shop's platform."""
    settings = open_shop.services.settings
    monkeypatch.setenv("NARTHEX_URL", settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", settings.token)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(make_app(), list(arguments))

    return invoke


def test_a_sink_is_among_the_jobs_of_a_commit(open_shop: House) -> None:
    specs = [job.asset.spec for job in open_shop.ledger.jobs.all()]
    labels = [row["label"] for row in job_rows(open_shop.ledger.jobs.all(), {})]

    (found,) = [spec for spec in specs if isinstance(spec, SinkJobSpec)]
    assert found.dataset == "LastOrders"
    assert "LastOrders → kafka:/told" in labels


@pytest.mark.parametrize("name", run_by(__name__))
def test_an_example_of_the_reference_shows_the_rows(name: str, open_shop: House) -> None:
    settings = open_shop.services.settings
    with closing(Client(settings.server_url, TOKEN)) as server:
        given = {"server": server, "url": settings.server_url, "token": TOKEN}
        told = differences(examples_of("narthex.client"), name, given)

    assert not told, "".join(told)


def test_refused_rows_are_listed_shown_repaired_and_gone(run: Any, tmp_path: Path) -> None:
    newest, oldest = _listed(run, "Orders")
    shown = _json(run("quarantine", "show", "Orders", oldest["row"], "--json"))
    repaired = tmp_path / "row.json"
    repaired.write_text(json.dumps(GOOD))
    refused = run("quarantine", "replay", "Orders", "--all", "--json")
    replayed = run("quarantine", "replay", "Orders", oldest["row"], "--payload", str(repaired))
    left = _listed(run, "Orders")

    assert [(row["ordinal"], row["field"]) for row in (oldest, newest)] == [
        (0, "amount"),
        (0, None),
    ]
    assert newest["offset"] == oldest["offset"] + 1
    assert json.loads(shown["payload"])["amount"] == "much"
    assert refused.exit_code == 1
    assert {one["outcome"] for one in _json(refused)} == {"rejected"}
    assert replayed.exit_code == 0, replayed.output
    assert f"{oldest['row']}  accepted" in replayed.stdout
    assert [row["row"] for row in left] == [newest["row"]]


def _json(result: Result) -> Any:
    """Return the JSON that a command printed; the server of the test logs to the same stream."""
    lines = [line for line in result.stdout.splitlines() if not line.startswith("20")]
    return json.loads("\n".join(lines))


def _listed(run: Any, dataset: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _json(run("quarantine", "list", dataset, "--json"))["rows"]
    return found


def test_pages_of_a_quarantine_follow_each_other(open_shop: House) -> None:
    path = "/api/v1/datasets/Ranks/quarantine"
    first = open_shop.client.get(path, params={"limit": 1}).json()
    second = open_shop.client.get(path, params={"limit": 1, "before": first["next"]}).json()
    page = open_shop.client.get("/console/datasets/Ranks/quarantine", params={"limit": 1})

    assert first["total"] == second["total"] == 2
    assert first["rows"][0]["rejected_at"] >= second["rows"][0]["rejected_at"]
    assert first["rows"][0]["row"] != second["rows"][0]["row"]
    assert second["next"] is None
    assert first["rows"][0]["row"] in page.text
    assert "KeyError" in page.text
    assert f"before={first['next']}" in page.text


def test_a_computed_row_that_breaks_an_expectation_names_it_and_is_discarded(
    run: Any, open_shop: House
) -> None:
    path = "/api/v1/datasets/SmallOrders/quarantine"
    row, other = open_shop.client.get(path).json()["rows"]
    replayed = open_shop.client.post(f"{path}/replay", json={"every": True})
    discarded = _json(run("quarantine", "discard", "SmallOrders", row["row"], "--json"))
    left = open_shop.client.get(path).json()["rows"]

    title = "amount: expect_column_values_to_be_between(max_value=2, strict_min=False"
    assert row["expectations"][0].startswith(title)
    assert row["reason"].startswith(f"it breaks {title}")
    assert (row["pipeline"], json.loads(row["payload"])["amount"]) == ("SmallOrders.small", 2.5)
    assert replayed.status_code == 400
    assert [(one["row"], one["outcome"]) for one in discarded] == [(row["row"], "discarded")]
    assert [one["row"] for one in left] == [other["row"]]


def test_a_replay_is_in_the_audit_log_and_a_list_is_not(open_shop: House) -> None:
    client = open_shop.client
    client.get("/api/v1/datasets/Orders/quarantine")
    client.post("/api/v1/datasets/Orders/quarantine/replay", json={"rows": ["nothing"]})

    logged = client.get("/api/v1/control-log", params={"limit": 1000}).json()["entries"]
    found = [one["entry"] for one in logged if "quarantine" in one["entry"]["path"]]
    assert {one["verb"] for one in found} == {"POST"}
    assert found[-1]["of"] == {"name": "Orders"}
    assert found[-1]["status"] == 400


@pytest.mark.parametrize(
    ("scopes", "branches", "tags", "statuses"),
    [
        (["reader"], ["*"], ["*"], (200, 403)),
        (["read:definitions"], ["*"], ["*"], (403, 403)),
        (["author"], ["main"], ["*"], (200, 400)),
        (["author"], ["dev"], ["*"], (403, 403)),
    ],
)
def test_rows_are_shown_to_those_who_may_read_the_dataset(
    open_shop: House,
    scopes: list[str],
    branches: list[str],
    tags: list[str],
    statuses: tuple[int, int],
) -> None:
    made = open_shop.client.post(
        "/api/v1/tokens",
        json={"name": "eve", "scopes": scopes, "branches": branches, "tags": tags},
    ).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    path = "/api/v1/datasets/Orders/quarantine"

    listed = open_shop.client.get(path, headers=headers)
    replayed = open_shop.client.post(f"{path}/replay", json={"rows": ["x"]}, headers=headers)

    assert (listed.status_code, replayed.status_code) == statuses


@pytest.mark.parametrize("page", ["quarantine", "late"])
def test_the_rows_of_a_dataset_with_a_tag_are_hidden_from_tokens_without_it(
    open_shop: House, page: str
) -> None:
    made = open_shop.client.post(
        "/api/v1/tokens",
        json={"name": "eve", "scopes": ["author"], "branches": ["*"], "tags": ["other"]},
    ).json()
    headers = {"authorization": f"Bearer {made['token']}"}

    hidden = open_shop.client.get(f"/api/v1/datasets/Ranks/{page}", headers=headers)
    absent = open_shop.client.get(f"/api/v1/datasets/Absent/{page}", headers=headers)

    assert hidden.status_code == absent.status_code == 404
    assert hidden.json()["err_msg"].replace("Ranks", "Absent") == absent.json()["err_msg"]


def test_rows_on_which_code_failed_are_listed_with_its_line_and_not_replayed(run: Any) -> None:
    listed = _listed(run, "Ranks")
    people = run("quarantine", "list", "Ranks").stdout
    shown = _json(run("quarantine", "show", "Ranks", listed[0]["row"], "--json"))
    replayed = run("quarantine", "replay", "Ranks", "--all")

    assert {row["pipeline"] for row in listed} == {"Ranks.ranked"}
    assert {row["step"] for row in listed} == {"`assign` of `rank` in `Ranks.ranked`"}
    assert "failed: KeyError: 'ann'" in listed[0]["reason"]
    assert listed[0]["file"].endswith("test_row_inspection.py")
    assert f"pipeline Ranks.ranked {listed[0]['file']}:{listed[0]['line']}" in people
    assert json.loads(shown["payload"])["user"] == "ann"
    assert replayed.exit_code != 0
    assert "failed in the pipeline `Ranks.ranked`" in str(replayed.exception or replayed.output)


def test_the_command_on_sources_lists_rows_on_which_code_failed(
    open_shop: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = open_shop.services.settings
    monkeypatch.setenv("NARTHEX_URL", settings.server_url)
    monkeypatch.setenv("NARTHEX_TOKEN", settings.token)
    ((block, shown),) = sessions(SOURCES, "sh rows")

    printed = Terminal(monkeypatch=monkeypatch).types(block)

    # The server of the test logs to the same stream, and its definitions are in this file.
    own = "".join(line for line in printed.splitlines(True) if not line.startswith("20"))
    told = re.sub(r"\S*test_row_inspection\.py:\d+", "features/ranks.py:31", own)
    assert shown is not None
    assert shows(unaligned(shown), unaligned(told)), told


def unaligned(table: str) -> str:
    """Return a table whose columns are as wide as their cells."""
    return re.sub(" {2,}", "  ", table)


def test_late_rows_are_listed_with_the_datasets_that_they_changed(run: Any) -> None:
    found = _json(run("late", "Orders", "--json"))
    told = run("late", "Orders")
    refused_after_it, *_ = _listed(run, "Orders")

    (late,) = found["rows"]
    assert late["values"]["amount"] == 2.5
    assert (late["source"], late["ordinal"]) == ("webhook:shop/orders", 1)
    assert late["offset"] == refused_after_it["offset"] - 1
    assert late["event_time"] == "2025-12-24T00:00:00.000000Z"
    assert late["changed_datasets"] == ["LastOrders", "Ranks", "SmallOrders", "Spend"]
    assert "1 rows came late" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("quarantine", "list", "Nothing"), "`Nothing` not found"),
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
