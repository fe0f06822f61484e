"""Requests of Fennel's client have our paths, their own forms, and the same checks as ours."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from fastapi.testclient import TestClient as PlainClient

from narthex_stores import LogReader
from tests.core.compat.messages import add_dataset, add_webhook, new_commit, shop
from tests.server.conftest import TOKEN, House, house_at, settings_at
from tests.server.driving import catch_up, create_all, step
from tests.server.shop import payload, shop_definitions

pytestmark = pytest.mark.postgres


def client_of(house: House, token: str = TOKEN, **headers: str) -> PlainClient:
    """Return a client that sends the headers of Fennel's client."""
    theirs = {"authorization": f"Bearer {token}", "x-fennel-branch": "main"}
    return PlainClient(house.client.app, headers=theirs | headers)


def send(client: PlainClient, message: Any, **terms: bool) -> Any:
    query = {name: str(value).lower() for name, value in terms.items()}
    return client.post("/api/v1/commit", params=query, content=message.SerializeToString())


def drive(house: House) -> None:
    """Take the steps of the newest commit as Airflow's tasks and a supervisor do."""
    while not (found := house.client.get("/api/v1/commits").json()["commits"]):
        threading.Event().wait(0.05)
    commit_id = found[0]["commit_id"]
    create_all(house.client, commit_id)
    for name in ("ready", "commit", "backfill", "backfilled"):
        step(house.client, commit_id, name)
    catch_up(house)
    step(house.client, commit_id, "promote")


def deploy(house: House, message: Any) -> Any:
    driving = threading.Thread(target=drive, args=(house,))
    driving.start()
    answer = send(client_of(house), message)
    driving.join()
    return answer


def test_a_preview_returns_the_lines_of_the_plan(house: House) -> None:
    answer = send(client_of(house), shop(), preview=True)

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    lines = answer.json()["summary"]
    assert lines[0].startswith("Plan ")
    assert all(line.endswith("\n") for line in lines)
    assert house.client.get("/api/v1/commits").json() == {"commits": []}


def test_a_commit_returns_when_readers_read_it(house: House) -> None:
    answer = deploy(house, shop())

    assert answer.status_code == 200, answer.text
    assert answer.json()["summary"][-1].endswith(" is done\n")
    (commit,) = house.client.get("/api/v1/commits").json()["commits"]
    assert (commit["message"], commit["promotion"]) == ("a shop", "DONE")


def test_a_commit_that_is_cancelled_is_an_error(house: House) -> None:
    answers: list[Any] = []
    calling = threading.Thread(target=lambda: answers.append(send(client_of(house), shop())))
    calling.start()
    while not (found := house.client.get("/api/v1/commits").json()["commits"]):
        threading.Event().wait(0.05)
    house.client.post(f"/api/v1/commits/{found[0]['commit_id']}/cancel")
    calling.join()

    assert answers[0].status_code == 409
    assert found[0]["commit_id"] in answers[0].json()["err_msg"]


def test_an_incremental_commit_adds_to_the_branch(house: House) -> None:
    assert deploy(house, shop()).status_code == 200
    added = new_commit()
    add_dataset(added, "Returns", user="str", amount="float").metadata.owner = "me@example.org"
    add_webhook(added, "Returns", "returns")

    whole = send(client_of(house), added, preview=True)
    incremental = send(client_of(house), added, preview=True, incremental=True)

    assert any("Spend" in line for line in whole.json()["summary"])
    assert not any("Spend" in line for line in incremental.json()["summary"])


def test_refusals_are_all_in_the_message_that_the_client_shows(house: House) -> None:
    commit = shop()
    commit.datasets[0].metadata.owner = ""
    commit.datasets[1].metadata.owner = ""

    answer = send(client_of(house), commit)

    assert answer.status_code == 400
    for part in ("[NX804]", "`Orders`", "`Spend`", "2 mistakes"):
        assert part in answer.json()["err_msg"]


@pytest.mark.parametrize("body", [b"", b"\xff\xff", b"\x0a"])
def test_a_body_that_is_not_a_commit_is_refused(house: House, body: bytes) -> None:
    answer = client_of(house).post("/api/v1/commit", content=body)

    assert answer.status_code == 400, answer.text
    assert house.client.get("/api/v1/commits").json() == {"commits": []}


def test_a_token_needs_the_right_of_our_route(house: House) -> None:
    body = {"name": "reader", "scopes": ["reader"]}
    token = house.client.post("/api/v1/tokens", json=body).json()["token"]

    assert send(client_of(house, token), shop()).status_code == 403
    assert send(client_of(house, "none"), shop()).status_code == 401


def test_our_client_reaches_our_route_even_with_both_headers(house: House) -> None:
    ours = client_of(house, **{"x-narthex-branch": "main"})

    answer = ours.post("/api/v1/commit", content=payload(shop_definitions()))

    assert answer.status_code == 202, answer.text


def test_offline_queries_over_s3_are_refused_by_name(house: House) -> None:
    call = {
        "input_features": ["User.user"],
        "output_features": ["User"],
        "timestamp_column": "at",
        "input": {"S3": {"s3_table": {}}},
        "s3_output": None,
    }

    answer = client_of(house).post("/api/v1/query_offline", json=call)

    assert answer.status_code == 400
    assert "[NX901] offline queries from and to S3" in answer.json()["err_msg"]


@pytest.fixture
def open_shop(tmp_path: Any, ledger_dsn: str, kafka_bootstrap: str) -> Iterator[House]:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap)
    # Shops of several modules share a broker.
    with house_at(attrs.evolve(settings, install_id="fennel00")) as house:
        yield house


@pytest.mark.kafka
def test_days_and_bytes_arrive_as_the_client_renders_them(open_shop: House) -> None:
    commit = new_commit()
    add_dataset(commit, "Photos", day="date", photo="optional bytes", number="int")
    add_webhook(commit, "Photos", "photos")
    assert deploy(open_shop, commit).status_code == 200
    data = {
        "day": [0, -86_400_000, 1_767_312_000_000],
        "photo": ["abcd", None, "\0é"],
        "number": [86_400_000, 1, 2],
        "at": [1_767_312_000_123] * 3,
    }

    call = {"webhook": "shop", "endpoint": "photos", "data": data}
    answer = client_of(open_shop).post("/api/v1/log", json=call)

    assert answer.json()["accepted"] == 3, answer.text
    topic = open_shop.services.snapshots.head("main").topic("webhook/shop/photos/ingest")
    with LogReader(open_shop.services.settings.kafka) as reader:
        reader.assign({(topic, 0): 0})
        (record,) = reader.poll(max_records=10, timeout_s=10.0)
    rows = json.loads(record.value or b"")["rows"]
    assert [row["day"] for row in rows] == [0, -1, 20_455]
    assert [row["number"] for row in rows] == [86_400_000, 1, 2]
    assert [base64.b64decode(row["photo"] or "") for row in rows] == [b"abcd", b"", "\0é".encode()]
    assert rows[0]["at"] == "2026-01-02T00:00:00.123000Z"
