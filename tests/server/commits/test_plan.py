"""A plan lists sharers, sizes and causes before a commit, and `expect_plan` enforces it."""

from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex._ir.entities import Csv, Definitions, Files
from narthex._ir.expression_nodes import Literal
from narthex._ir.operators import Aggregate, Filter
from narthex._ir.types import Bool
from narthex_server.services.commit_comparisons import CommitComparisons
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import accept, create_all, serve, shown, step
from tests.server.shop import payload, shop_definitions

pytestmark = pytest.mark.postgres

FEATURES = ["Buyer.orders_1h", "Buyer.spent", "Buyer.is_busy", "Buyer.rank"]
"""The features that `Spend` feeds: two are looked up, and two are computed from them."""


def preview(house: House, wanted: Definitions, **headers: str) -> Any:
    answer = house.client.post(
        "/api/v1/commit", params={"preview": "true"}, content=payload(wanted), headers=headers
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def commit(house: House, wanted: Definitions, **parameters: str) -> Any:
    return house.client.post("/api/v1/commit", params=parameters, content=payload(wanted))


def edited(name: str, **changes: Any) -> Definitions:
    shop = shop_definitions()
    return attrs.evolve(
        shop,
        datasets=tuple(
            attrs.evolve(one, **changes) if one.name == name else one for one in shop.datasets
        ),
    )


def raised(name: str) -> Definitions:
    return edited(name, version=2)


def test_a_plan_lists_created_assets_with_their_cause(house: House) -> None:
    told = preview(house, shop_definitions())

    report = told["report"]
    assert (report["branch"], report["base_seq"]) == ("main", 0)
    assert {why["what"] for why in report["why"]} == {"new"}
    assert report["share"] == report["release"] == report["backfill"] == []
    assert told["summary"][0].startswith(f"Plan {report['plan_sha256'][:12]}")


def test_a_plan_shows_how_logs_are_divided(house: House) -> None:
    told = preview(house, edited("Orders", partitions=4))

    parts = {asset["label"]: asset.get("parts") for asset in told["report"]["create"]}
    assert parts["log of Orders"] == 4
    assert parts["log of Spend"] == house.services.settings.partitions == 2
    assert "* log of Orders: 4 partitions" in told["summary"]


def test_a_raised_version_is_the_only_cause_of_its_consequences(house: House) -> None:
    serve(house, shop_definitions())

    report = preview(house, raised("Orders"))["report"]

    (why,) = report["why"]
    assert (why["entity"], why["path"], why["old"], why["new"]) == (
        "dataset `Orders`",
        "version",
        "`1`",
        "`2`",
    )
    assert why["downstream"] == ["Spend", *FEATURES]
    assert {"log of Orders", "index of Spend"} <= {one["label"] for one in report["create"]}
    assert {"log of Orders", "dataset/Orders/log"} & {one["label"] for one in report["release"]}
    assert "dataset/Spend/index" in report["flip"]


@pytest.mark.slow
def test_a_change_is_shown_where_it_first_differs(house: House) -> None:
    serve(house, shop_definitions())
    spend = next(one for one in shop_definitions().datasets if one.name == "Spend")
    (pipeline,) = spend.pipelines
    terminal = pipeline.terminal
    assert isinstance(terminal, Aggregate)
    assert isinstance(terminal.input, Filter)
    looser = attrs.evolve(
        terminal, input=attrs.evolve(terminal.input, predicate=Literal(value=True, type=Bool()))
    )
    wanted = edited("Spend", version=2, pipelines=(attrs.evolve(pipeline, terminal=looser),))

    (why,) = preview(house, wanted)["report"]["why"]

    assert why["entity"] == "dataset `Spend`"
    assert why["path"].startswith("pipeline.")
    assert why["path"].endswith("predicate")
    assert why["downstream"] == FEATURES


def test_a_plan_lists_shared_assets_with_their_branches(house: House) -> None:
    serve(house, shop_definitions())
    house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev"})

    told = preview(house, shop_definitions(), **{"x-narthex-branch": "dev"})

    assert told["report"]["create"] == []
    assert {tuple(one["shared_with"]) for one in told["report"]["share"]} == {("main",)}
    assert any("with main" in line for line in told["summary"])


def test_a_description_alone_makes_nothing(house: House) -> None:
    serve(house, shop_definitions())
    orders = next(one for one in shop_definitions().datasets if one.name == "Orders")
    wanted = edited("Orders", metadata=attrs.evolve(orders.metadata, description="All of it."))

    report = preview(house, wanted)["report"]

    assert [line.split(":")[0] for line in report["metadata"]] == ["dataset `Orders`"]
    assert report["create"] == report["release"] == report["flip"] == report["why"] == []


def test_a_plan_has_the_size_of_a_backfill_from_files(house: House) -> None:
    lines = "".join(f"u{number},1.5,2026-01-01T00:00:00Z\n" for number in range(500))
    house.services.settings.files_root.mkdir()
    (house.services.settings.files_root / "orders.csv").write_text("user,amount,at\n" + lines)
    orders = next(one for one in shop_definitions().datasets if one.name == "Orders")
    (source,) = orders.sources
    files = Files(name="old", path="orders.csv", format=Csv())
    from_files = attrs.evolve(
        source, connector=files, bounded=True, idleness_us=1, preproc=(), where=None
    )

    told = preview(house, edited("Orders", sources=(from_files,)))

    by_label = {one["label"]: one for one in told["report"]["backfill"]}
    (read,) = [one for label, one in by_label.items() if label.startswith("source")]
    computed = by_label["pipeline Spend.by_user"]
    assert (read["rows"], read["bytes"]) == (501, len("user,amount,at\n" + lines))
    assert read["basis"] == "size of 1 files"
    assert read["seconds"] is None
    assert computed["rows"] == 501
    assert any("501 rows" in line for line in told["summary"])


@pytest.mark.slow
def test_a_broker_that_does_not_answer_leaves_the_rows_out(house: House) -> None:
    serve(house, shop_definitions())

    report = preview(house, raised("Orders"))["report"]

    assert {one["rows"] for one in report["backfill"]} == {None}
    assert any(
        one["basis"].startswith("the broker did not return it") for one in report["backfill"]
    )


def test_a_commit_keeps_to_the_plan_that_was_approved(house: House) -> None:
    approved = preview(house, shop_definitions())["report"]["plan_sha256"]
    other = commit(house, raised("Orders"), expect_plan=approved)
    garbled = commit(house, shop_definitions(), expect_plan="7f3a")
    kept = commit(house, shop_definitions(), expect_plan=approved)

    assert other.status_code == 409
    assert "plan_changed" in other.json()["err_msg"]
    assert other.json()["detail"]["plan_sha256"] != approved
    assert garbled.status_code == 400
    assert kept.status_code == 202
    create_all(house.client, kept.json()["commit_id"])
    assert shown(house.client, kept.json()["commit_id"])["state"] == "APPLYING"


@pytest.mark.slow
def test_a_commit_shows_afterwards_the_plan_that_was_previewed_and_what_it_changed(
    house: House,
) -> None:
    serve(house, shop_definitions())
    report = preview(house, raised("Orders"))["report"]
    commit_id = accept(house.client, raised("Orders"))

    queued = house.client.get(f"/api/v1/commits/{commit_id}/plan").json()
    create_all(house.client, commit_id)
    found = house.client.get(f"/api/v1/commits/{commit_id}/plan").json()

    assert queued == {"plan": None, "changes": None}
    due = [job["label"] for job in report["backfill"]]
    assert sorted(job["label"] for job in found["plan"]["backfill"]) == sorted(due)
    assert found["plan"] | {"backfill": report["backfill"]} == report
    assert any("Orders" in line for line in found["changes"])


def test_commits_are_compared_once_while_their_pages_are_looked_at(house: House) -> None:
    first = accept(house.client, shop_definitions())
    create_all(house.client, first)
    view = house.ledger.commits.get(UUID(first))
    comparisons = CommitComparisons(house.ledger)

    compared = comparisons.of(view)

    assert compared is not None
    assert (compared.before, len(compared.after.datasets)) == (None, 3)
    assert comparisons.of(view) is compared
    assert CommitComparisons(house.ledger).of(view) == compared


def test_a_plan_that_changed_in_between_is_refused_when_it_is_carried_out(house: House) -> None:
    approved = preview(house, shop_definitions())["report"]["plan_sha256"]
    first = commit(house, shop_definitions(), expect_plan=approved).json()["commit_id"]
    other = accept(house.client, raised("Users"))
    create_all(house.client, other)
    for name in ("ready", "commit"):
        step(house.client, other, name)

    answer = house.client.post(f"/api/v1/commits/{first}/steps/plan")

    assert answer.status_code == 409
    assert shown(house.client, first)["state"] == "REJECTED"
    assert shown(house.client, first)["error"]["reason"] == "plan_changed"


def test_a_commit_without_backfill_is_refused_at_once_when_it_needs_one(house: House) -> None:
    serve(house, shop_definitions())

    refused = commit(house, raised("Orders"), backfill="false")
    accepted = commit(house, shop_definitions(), backfill="false")

    assert refused.status_code == 409
    assert "would_backfill" in refused.json()["err_msg"]
    assert accepted.status_code == 202


@pytest.mark.kafka
def test_a_plan_has_the_rows_of_a_backfill_from_a_log(
    tmp_path: Any, ledger_dsn: str, kafka_bootstrap: str
) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap)
    with house_at(attrs.evolve(settings, install_id="plan0000")) as house:
        serve(house, shop_definitions())
        rows = [
            {"user": "ann", "amount": 2.0, "ordered_at": "2026-01-01T00:00:00Z", "test": False}
        ] * 3
        for _ in range(4):
            logged = house.client.post(
                "/api/v1/log", json={"webhook": "shop", "endpoint": "orders", "data": rows}
            )
            assert logged.status_code == 200, logged.text

        report = preview(house, raised("Orders"))["report"]

    by_label = {one["label"]: one for one in report["backfill"]}
    (read,) = [one for label, one in by_label.items() if label.startswith("source")]
    assert read["rows"] == 12
    assert read["bytes"] > 12 * 20
    assert by_label["pipeline Spend.by_user"]["rows"] == 12
