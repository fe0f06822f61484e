"""The loop on a real ledger with a real receiver: every event arrives, in order, with fixed ids."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex._base import Backoff
from narthex._ir import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.lib import inputs
from narthex_ledger import AuditView, Epoch, Fenced, Ledger, Moment, Signer
from narthex_server.lineage_events import loop as loop_module
from narthex_server.lineage_events.environment import configuration_file
from narthex_server.lineage_events.loop import LineageLoop
from narthex_server.operations.metrics import render_metrics
from narthex_server.services.meters import Meters
from tests.server.alerts.local_receivers import HttpReceiver, http_receiver
from tests.server.conftest import House
from tests.server.driving import accept, create_all, deploy, serve, step
from tests.server.lineage_events.typed_events import assert_valid
from tests.server.shop import Orders, shop, shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

__owner__ = "shop@narthex.dev"

KEY = "a-key-of-tests"
DEV = {"x-narthex-branch": "dev"}
OWN = "narthex://tests000"


def claimed(epoch: Epoch | None) -> Epoch:
    assert epoch is not None
    return epoch


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


@pytest.fixture
def loop(house: House, http: HttpReceiver) -> LineageLoop:
    configure(house, http)
    return LineageLoop(house.services, environment={})


def configure(house: House, http: HttpReceiver) -> None:
    configuration_file(house.services.settings.home).write_text(
        f"transport:\n  type: http\n  url: {http.url}\n"
        f"  auth:\n    type: api_key\n    apiKey: {KEY}\n"
    )


def sent(http: HttpReceiver) -> list[tuple[str, str]]:
    return [(call.body["job"]["name"], call.body["eventType"]) for call in http.calls]


def identities(http: HttpReceiver) -> list[tuple[str, str, str]]:
    return [
        (call.body["job"]["name"], call.body["eventType"], call.body["run"]["runId"])
        for call in http.calls
    ]


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in datasets]


def of_job(http: HttpReceiver, job: str, state: str) -> dict[str, Any]:
    (found,) = (
        call.body
        for call in http.calls
        if (call.body["job"]["name"], call.body["eventType"]) == (job, state)
    )
    return found


def with_large_orders() -> Definitions:
    """The shop with a dataset of what it has already, which needs a backfill."""

    @dataset
    class LargeOrders:
        user: str
        amount: float
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Orders)
        def large(cls, orders):  # noqa: ANN001, ANN202, N805
            return orders.filter(col("amount") > 1_000_000.0)

    datasets, featuresets = shop()
    return definitions([*datasets, LargeOrders], featuresets)


def test_a_commit_starts_and_completes_with_its_datasets_and_jobs(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    loop.send()

    assert sent(http)[0] == ("main.commit", "START")
    assert sent(http)[-1] == ("main.commit", "COMPLETE")
    done = of_job(http, "main.commit", "COMPLETE")
    assert names(done["outputs"]) == [
        (OWN, f"main.{name}") for name in ("Orders", "Users", "Spend")
    ]
    facets = done["outputs"][2]["facets"]
    assert [(one["name"], one["type"]) for one in facets["schema"]["fields"]] == [
        ("user", "str"),
        ("orders_1h", "int"),
        ("spent", "float"),
        ("at", "datetime"),
    ]
    assert facets["ownership"]["owners"] == [{"name": "shop@narthex.dev"}]
    assert facets["documentation"]["description"] == "The spending of a user."

    running = of_job(http, "main.Spend.pipeline.by_user", "RUNNING")
    assert names(running["inputs"]) == [(OWN, "main.Orders")]
    assert names(running["outputs"]) == [(OWN, "main.Spend")]
    assert running["outputs"][0]["facets"]["symlinks"] == facets["symlinks"]
    assert running["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert running["run"]["facets"]["parent"]["run"]["runId"] == done["run"]["runId"]
    source = of_job(http, "main.Orders.source.0", "START")
    assert names(source["inputs"]) == [(OWN, "webhook/shop/orders")]
    log = source["outputs"][0]["facets"]["symlinks"]["identifiers"]
    assert running["inputs"][0]["facets"]["symlinks"]["identifiers"] == log
    assert log[0]["namespace"] == "kafka://127.0.0.1:1"
    history = of_job(http, "main.Spend.history_feed", "START")
    (table,) = history["outputs"]
    assert table["namespace"] == "file"
    assert table["name"].startswith(f"{house.services.settings.history_dir}/nx_tests000_")
    for call in http.calls:
        assert_valid(call.body)
        assert call.headers["authorization"] == f"Bearer {KEY}"


def test_nothing_is_sent_twice_once_its_position_is_stored(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    loop.send()
    before = len(http.calls)
    loop.send()
    LineageLoop(house.services, environment={}).send()

    assert len(http.calls) == before > 0


def test_a_failed_commit_fails_without_the_text_of_its_error(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    commit_id = accept(house.client, shop_definitions())
    create_all(house.client, commit_id)
    house.ledger.commits.abort(
        UUID(commit_id), error={"reason": "create_failed", "detail": "row ann@x.y"}, actor="tests"
    )
    house.services.collector.collect(UUID(commit_id))
    loop.send()

    started = {name for name, state in sent(http) if state == "START"}
    assert {name for name, state in sent(http) if state == "ABORT"} == started - {"main.commit"}
    failed = of_job(http, "main.commit", "FAIL")
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert message == f"It failed: `create_failed`. `console/commits/{commit_id}` shows why."
    assert "ann@x.y" not in json.dumps([call.body for call in http.calls])
    assert failed["outputs"] == []
    assert_valid(failed)


def test_a_rejected_and_a_cancelled_commit_end(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    rejected = accept(house.client, shop_definitions())
    house.ledger.commits.abort(UUID(rejected), error="row ann@x.y", actor="tests")
    cancelled = accept(house.client, shop_definitions(), **{"idempotency-key": "another-commit"})
    house.ledger.commits.cancel(UUID(cancelled), actor="ann")
    loop.send()

    assert sent(http) == [
        ("main.commit", "START"),
        ("main.commit", "FAIL"),
        ("main.commit", "START"),
        ("main.commit", "ABORT"),
    ]
    assert "ann" not in json.dumps([call.body for call in http.calls])


def test_a_commit_that_is_rolled_back_before_it_serves_fails(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    commit_id = UUID(deploy(house.client, shop_definitions()))
    answer = house.client.post("/api/v1/rollback", json={})
    assert answer.status_code == 200, answer.text
    fence = house.ledger.commits.claim(commit_id, house.services.executor.owner)
    house.ledger.commits.finalize(commit_id, fence)
    loop.send()

    assert [one for one in sent(http) if "commit" in one[0] or "rollback" in one[0]] == [
        ("main.commit", "START"),
        ("main.rollback", "START"),
        ("main.rollback", "COMPLETE"),
        ("main.commit", "FAIL"),
    ]


def test_a_receiver_that_is_away_loses_nothing_and_gets_everything_in_order(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    http.statuses += [200, 200, 503, 401, 302]
    for _ in range(5):
        loop.send()

    taken = [one for place, one in enumerate(identities(http)) if place not in (2, 3, 4)]
    # What failed is repeated, and nothing else.
    assert identities(http)[2:6] == [taken[2]] * 4
    assert len(set(taken)) == len(taken) == 13
    assert taken[-1][:2] == ("main.commit", "COMPLETE")
    assert [call.path for call in http.calls] == ["/api/v1/lineage"] * len(http.calls)


def test_the_part_of_an_event_that_was_sent_is_not_sent_again(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    # One event of the ledger starts three jobs; the second of them is not taken.
    http.statuses += [200] * 10 + [503]
    loop.send()
    assert [state for _, state in sent(http)[-2:]] == ["RUNNING", "RUNNING"]
    loop.send()

    assert identities(http)[10] == identities(http)[11]
    assert len(http.calls) == 14
    assert len(set(identities(http))) == 13


def test_a_server_that_loses_the_lease_during_a_round_stops(
    house: House, http: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(house, http)
    serve(house, shop_definitions())
    monkeypatch.setattr(loop_module, "RENEW_S", 0.0)
    holds: list[str] = []

    def take_over(name: str, moment: Moment) -> None:
        if (name, moment) == ("hold_lineage", Moment.BEFORE_BEGIN):
            holds.append(name)
            if len(holds) == 4:
                house.ledger.lineage.release(house.services.collector.owner)
                assert house.ledger.lineage.hold("server:another:1")

    settings = house.services.settings
    signer = Signer.load(settings.signing_key)
    ledger = Ledger(settings.ledger_dsn, signer=signer, fault_hook=take_over)
    slow = LineageLoop(attrs.evolve(house.services, ledger=ledger), environment={})
    with pytest.raises(Fenced):
        slow.send()
    ledger.close()

    assert len(http.calls) == 2  # the first hold begins the round, the others precede an event


def test_the_metrics_show_how_far_lineage_is_behind_and_why(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    def shown() -> str:
        return render_metrics(Meters(), [], lineage=house.ledger.lineage.status())

    serve(house, shop_definitions())
    http.statuses += [503, 503]
    loop.send()
    loop.send()
    behind = house.ledger.lineage.status()
    text = shown()
    loop.send()

    assert behind.lag_s > 0
    assert 'narthex_lineage_failures{error="it answered with status 503"} 2' in text
    assert "narthex_lineage_failures 0" in shown()
    assert "narthex_lineage_lag_seconds 0\n" in shown()


def test_an_event_that_the_receiver_refuses_does_not_hold_up_the_others(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    http.statuses += [422]
    loop.send()

    assert len(identities(http)) == len(set(identities(http))) == 13
    assert sent(http)[-1] == ("main.commit", "COMPLETE")
    assert house.ledger.lineage.status().failures == 0


def test_a_server_that_is_killed_before_it_stores_its_position_sends_the_same_events_again(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())

    def kill(name: str, moment: Moment) -> None:
        if (name, moment) == ("advance_lineage", Moment.BEFORE_COMMIT):
            raise Killed

    settings = house.services.settings
    signer = Signer.load(settings.signing_key)
    ledger = Ledger(settings.ledger_dsn, signer=signer, fault_hook=kill)
    doomed = LineageLoop(attrs.evolve(house.services, ledger=ledger), environment={})
    with pytest.raises(Killed):
        doomed.send()
    ledger.close()
    first = identities(http)
    http.calls.clear()
    loop.send()

    assert identities(http) == first
    assert len(first) == 13


def test_one_server_sends_at_a_time(house: House, http: HttpReceiver, loop: LineageLoop) -> None:
    serve(house, shop_definitions())
    assert house.ledger.lineage.hold("server:another:1")
    assert not loop.send()
    assert http.calls == []
    house.ledger.lineage.release("server:another:1")
    loop.send()

    assert len(http.calls) == 13


def test_a_backfill_is_a_batch_run_with_its_rows(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    loop.send()
    http.calls.clear()
    commit_id = UUID(accept(house.client, with_large_orders()))
    create_all(house.client, str(commit_id))
    for name in ("ready", "commit"):
        step(house.client, str(commit_id), name)
    (asset_id,) = (job.asset.asset_id for job in house.ledger.jobs.all() if job.owes_backfill)
    backfills = house.ledger.backfills
    failed = claimed(backfills.claim(commit_id, asset_id))
    backfills.release(asset_id, failed, error="row ann@x.y")
    claimed(backfills.claim(commit_id, asset_id))  # its process dies
    last = claimed(backfills.claim(commit_id, asset_id))
    backfills.finish(asset_id, last, offsets={}, rows=42)
    loop.send()

    calls = [call.body for call in http.calls if "backfill" in call.body["job"]["name"]]
    assert [call["eventType"] for call in calls] == [
        "START",
        "FAIL",
        "START",
        "ABORT",
        "START",
        "COMPLETE",
    ]
    runs = [call["run"]["runId"] for call in calls]
    assert runs == [runs[0]] * 2 + [runs[2]] * 2 + [runs[4]] * 2
    assert len(set(runs)) == 3
    done = calls[-1]
    assert done["job"]["name"] == "main.LargeOrders.pipeline.large.backfill"
    assert names(done["inputs"]) == [(OWN, "main.Orders")]
    assert names(done["outputs"]) == [(OWN, "main.LargeOrders")]
    assert done["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 42
    assert done["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert "ann@x.y" not in json.dumps([call.body for call in http.calls])
    for call in calls:
        assert_valid(call)


def test_an_audit_has_its_assertions_and_no_examples(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    audit = AuditView(
        audit_id=UUID(int=7),
        dataset="Orders",
        branch="main",
        from_us=0,
        to_us=1,
        success=False,
        is_critical=True,
        examples=[["ann@x.y"]],
        result={
            "expectations": [
                {
                    "kind": "expect_column_values_to_be_in_set",
                    "arguments": {"column": "user", "value_set": ["ann@x.y"]},
                    "severity": "critical",
                    "success": False,
                    "error": "ann@x.y",
                },
                {"kind": "expect_table_row_count", "arguments": {}, "success": True},
            ]
        },
    )
    for _ in range(2):
        house.ledger.audits.record(audit)
    loop.send()

    assert sent(http) == [("main.Orders.audit", "START"), ("main.Orders.audit", "COMPLETE")]
    (checked,) = http.calls[1].body["inputs"]
    assert (checked["namespace"], checked["name"]) == (OWN, "main.Orders")
    found = checked["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(one["assertion"], one["success"], one.get("column")) for one in found] == [
        ("expect_column_values_to_be_in_set", False, "user"),
        ("expect_table_row_count", True, None),
    ]
    assert "ann@x.y" not in json.dumps([call.body for call in http.calls])
    for call in http.calls:
        assert_valid(call.body)


def test_a_gate_names_the_run_of_its_commit(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    commit_id = UUID(deploy(house.client, shop_definitions()))
    house.ledger.audits.record(
        AuditView(
            audit_id=UUID(int=8),
            dataset="Orders",
            branch="main",
            from_us=None,
            to_us=None,
            success=True,
            commit_id=commit_id,
            result={"expectations": []},
        )
    )
    loop.send()

    gate = of_job(http, "main.Orders.gate", "COMPLETE")
    start = of_job(http, "main.commit", "START")
    assert gate["run"]["facets"]["parent"]["run"]["runId"] == start["run"]["runId"]


def test_a_clone_completes_with_the_datasets_under_its_own_name(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    serve(house, shop_definitions())
    loop.send()
    http.calls.clear()
    answer = house.client.post("/api/v1/init", json={"clone_from": "main"}, headers=DEV)
    assert answer.status_code == 200, answer.text
    loop.send()

    assert sent(http) == [("dev.clone", "START"), ("dev.clone", "COMPLETE")]
    assert names(http.calls[1].body["outputs"])[0] == (OWN, "dev.Orders")


def test_the_thread_sends_by_itself_and_frees_the_lease(
    house: House, http: HttpReceiver, loop: LineageLoop
) -> None:
    commit_id = accept(house.client, shop_definitions())
    loop.start()
    assert Backoff(0.02, 0.1).until(lambda: bool(http.calls), within_s=30.0)
    loop.stop()

    assert sent(http) == [("main.commit", "START")]
    assert house.ledger.lineage.hold("server:another:1")
    assert commit_id not in http.calls[0].body["run"]["runId"]
