"""Rows flow in by webhook and Kafka, wrong ones are set aside, late ones correct."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from narthex.client import Client
from narthex.errors import Refused
from narthex.settings import environment_of
from tests.acceptance.conftest import Market
from tests.acceptance.market import TOPIC
from tests.acceptance.platform import STREAM_S, Platform, as_json, order, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

NOON = "2026-03-02T12:00:00Z"


def orders_of(platform: Platform, user: str, *, as_of: str = NOON) -> int:
    found = platform.ask(["Buyer.orders_ever"], as_of=as_of, user=user)["orders_ever"]
    assert isinstance(found, int)
    return found


def wait_orders(platform: Platform, user: str, count: int, *, as_of: str = NOON) -> None:
    wait_until(
        lambda: orders_of(platform, user, as_of=as_of) == count,
        within_s=STREAM_S,
        what=f"{count} orders of {user}",
        so_far=lambda: orders_of(platform, user, as_of=as_of),
    )


def test_rows_by_webhook_and_by_kafka_become_visible(market: Market) -> None:
    platform = market.platform
    platform.log("orders", [order("eva", "2026-03-02T10:00:00Z", quantity=2)])
    platform.produce(TOPIC, as_json([order("eva", "2026-03-02T11:30:00Z", item="rope")]))

    wait_orders(platform, "eva", 2)

    found = platform.ask(["Buyer"], as_of=NOON, user="eva")
    assert (found["orders_1h"], found["quantity_ever"], found["items"]) == (1, 3, ["rope", "tea"])


def test_a_query_contains_the_rows_that_it_waits_for(market: Market) -> None:
    client = market.platform.client
    row = order("pia", "2026-03-02T10:00:00Z", quantity=2)
    response = client.log("market", "orders", pd.DataFrame([row]))
    assert response is not None

    answers, _ = client.query_columns(
        ["Buyer.user"],
        ["Buyer.orders_ever"],
        {"Buyer.user": ["pia"]},
        as_of=NOON,
        after=str(response.body["after"]),
    )

    assert answers == {"Buyer.orders_ever": [1]}


def test_a_call_with_a_bad_row_is_refused_whole(market: Market) -> None:
    platform = market.platform
    rows = [order("fay", NOON), order("fay", NOON, quantity="many")]

    with pytest.raises(Refused, match="row 1, Orders: `quantity`"):
        platform.log("orders", rows)

    platform.log("orders", [order("fay", "2026-03-02T11:00:00Z")])
    wait_orders(platform, "fay", 1)


def test_bad_records_are_quarantined_and_the_stream_continues(
    market: Market,
) -> None:
    platform = market.platform
    topic = platform.topic("dataset/Orders/quarantine")
    before = len(platform.records(topic))
    bad = [b"{not json", *as_json([order("gus", NOON, quantity="many")]), b"[1, 2]"]
    platform.produce(TOPIC, [*bad, *as_json([order("gus", "2026-03-02T11:00:00Z")])])

    wait_orders(platform, "gus", 1)
    wait_until(
        lambda: len(platform.records(topic)) == before + 3,
        within_s=STREAM_S,
        what="three are quarantined",
    )

    found = [json.loads(r.value or b"") for r in platform.records(topic)]
    mine = [one for one in found if "kafka" in one["source"]][-3:]
    assert any("`quantity`" in one["reason"] and "many" in one["reason"] for one in mine)
    assert all(one["reason"] for one in mine)
    assert all(isinstance(one["offset"], int) and one["partition"] in {0, 1} for one in mine)
    assert {one["payload"] for one in mine} == {payload.decode() for payload in bad}
    counted = wait_until(
        lambda: sum(job["quarantined"] or 0 for job in platform.jobs()) >= 3,
        within_s=STREAM_S,
        what="they are counted",
    )
    assert counted
    datasets = platform.client.read("datasets")["datasets"]
    assert isinstance(datasets, list)
    quarantined = [d["quarantined"] for d in datasets if isinstance(d, dict)]
    assert before + 3 in quarantined


def test_a_late_row_corrects_answers_about_the_past(market: Market) -> None:
    platform = market.platform
    then = "2026-03-02T10:30:00Z"
    platform.log("orders", [order("hal", "2026-03-02T11:00:00Z")])
    wait_orders(platform, "hal", 1)
    assert orders_of(platform, "hal", as_of=then) == 0

    platform.log("orders", [order("hal", "2026-03-02T10:00:00Z", item="salt")])

    wait_orders(platform, "hal", 1, as_of=then)
    wait_orders(platform, "hal", 2)
    assert platform.ask(["Buyer.items"], as_of=NOON, user="hal")["items"] == ["tea", "salt"]


def demand(platform: Platform, country: str) -> object:
    return platform.ask(["Country.orders"], as_of=NOON, country=country)["orders"]


def test_a_late_row_of_the_right_side_moves_what_was_joined(market: Market) -> None:
    platform = market.platform
    platform.log("users", [{"user": "ida", "country": "NO", "moved_at": "2026-03-02T08:00:00Z"}])
    wait_until(
        lambda: platform.ask(["Buyer.country"], as_of=NOON, user="ida")["country"] == "NO",
        within_s=STREAM_S,
        what="ida lives in NO",
    )
    platform.log("orders", [order("ida", "2026-03-02T10:00:00Z")])
    wait_until(lambda: demand(platform, "NO") == 1, within_s=STREAM_S, what="NO bought once")

    platform.log("users", [{"user": "ida", "country": "SE", "moved_at": "2026-03-02T09:00:00Z"}])

    wait_until(
        lambda: (demand(platform, "NO"), demand(platform, "SE")) == (0, 1),
        within_s=STREAM_S,
        what="the order moved from NO to SE",
        so_far=lambda: (demand(platform, "NO"), demand(platform, "SE")),
    )


def test_online_answers_are_the_offline_answers_at_the_logged_offsets(market: Market) -> None:
    platform = market.platform
    users = ["ann", "bob", "jan", "nobody"]
    inputs = ["Buyer.user"]
    online: dict[str, list[object]] = {}
    spine: dict[str, list[object]] = {"Buyer.user": [], "as_of": [], "offsets": []}
    for number in range(8):
        platform.log("orders", [order("jan", f"2026-03-02T0{number}:00:00Z", quantity=number + 1)])
        as_of = f"2026-03-02T0{number}:30:00Z"
        answers, read = platform.client.query_columns(
            inputs, ["Buyer"], {"Buyer.user": users}, as_of=as_of, log=True, explain=True
        )
        for name, values in answers.items():
            online.setdefault(name, []).extend(values)
        spine["Buyer.user"] += users
        spine["as_of"] += [as_of] * len(users)
        spine["offsets"] += [json.dumps(read["offsets"])] * len(users)
    wait_orders(platform, "jan", 8)
    platform.settle()

    principal = Client(platform.settings.server_url, platform.settings.token)
    offline = principal.query_offline_columns(
        inputs,
        ["Buyer"],
        spine,
        timestamp_column="as_of",
        offsets_column="offsets",
        timeout_s=STREAM_S,
    )
    principal.close()

    assert len(online["Buyer.user"]) == 32
    for name, values in online.items():
        assert offline[name] == [
            pytest.approx(one, rel=1e-9) if isinstance(one, float) else one for one in values
        ], name


def test_all_stores_and_answers_match_the_definitions(market: Market) -> None:
    market.platform.settle()

    proved = subprocess.run(
        [Path(sys.executable).with_name("narthex"), "prove", "--json"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment_of(market.platform.settings)},
    )

    proof = json.loads(proved.stdout)
    assert (proved.returncode, proof["differences"], proof["unproved"]) == (0, [], []), (
        proved.stderr
    )
    assert proof["compared"]["answers"] == 8
    assert proof["compared"]["Orders.history"] > 0
    assert proof["compared"]["Spend.index"] > 0
