"""`/log` accepts a call whole, as one record, or refuses it whole and names every bad row."""

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from narthex._formats import render_positions
from narthex_stores import LogReader
from tests.server.conftest import TOKEN, House, house_at, settings_at
from tests.server.driving import deploy
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

GOOD = {"user": "ann", "amount": 2.5, "ordered_at": "2026-01-02T03:04:05Z", "test": False}


@pytest.fixture(scope="module")
def open_shop(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    home = tmp_path_factory.mktemp("shop")
    settings = settings_at(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap)
    # Shops of several modules share a broker.
    with house_at(attrs.evolve(settings, install_id="logs0000")) as house:
        deploy(house.client, shop_definitions())
        yield house


def log(house: House, rows: Any, *, endpoint: str = "orders", **headers: str) -> Any:
    return house.client.post(
        "/api/v1/log",
        json={"webhook": "shop", "endpoint": endpoint, "data": rows},
        headers=headers,
    )


def ingest_topic(house: House, endpoint: str = "orders") -> str:
    return house.services.snapshots.head("main").topic(f"webhook/shop/{endpoint}/ingest")


def records(house: House) -> list[dict[str, Any]]:
    """Read the endpoint's whole ingest topic."""
    topic = ingest_topic(house)
    found: list[dict[str, Any]] = []
    with LogReader(house.services.settings.kafka) as reader:
        (end,) = reader.end_offsets([topic]).values()
        reader.assign({(topic, 0): 0})
        while len(found) < end:
            found += [
                {**json.loads(r.value or b""), "headers": dict(r.headers)}
                for r in reader.poll(max_records=1000, timeout_s=5.0)
            ]
    return found


def test_an_accepted_call_is_one_record_with_all_its_rows(open_shop: House) -> None:
    before = len(records(open_shop))

    answer = log(open_shop, [GOOD, {**GOOD, "user": "bob"}], **{"idempotency-key": "call-1"})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "accepted": 2,
        "left_out": 0,
        "partition": 0,
        "offset": before,
        "after": render_positions({ingest_topic(open_shop): {0: before + 1}}),
    }
    written = records(open_shop)[before:]
    assert [[row["user"] for row in record["rows"]] for record in written] == [["ann", "bob"]]
    assert written[0]["headers"]["idempotency_key"] == b"call-1"
    assert int(written[0]["headers"]["received_at"]) > 1_700_000_000_000_000


def test_a_filtered_row_may_have_an_invalid_instant(open_shop: House) -> None:
    answer = log(open_shop, [GOOD, {**GOOD, "test": True, "ordered_at": 1e30}])

    assert answer.status_code == 200, answer.text
    assert answer.json()["left_out"] == 1


def test_a_row_that_is_too_large_for_a_fact_is_refused(open_shop: House) -> None:
    answer = log(open_shop, [GOOD, {**GOOD, "user": "u" * (5 << 20)}])

    assert answer.status_code == 413
    assert "row 1 has more than" in answer.json()["err_msg"]


def test_a_call_that_comes_again_is_one_record_and_has_one_answer(open_shop: House) -> None:
    before = len(records(open_shop))
    key = {"idempotency-key": "call-again"}

    first = log(open_shop, [GOOD], **key)
    again = log(open_shop, [GOOD], **key)
    open_shop.services.once.forget(ingest_topic(open_shop))
    after_restart = log(open_shop, [GOOD], **key)
    other = log(open_shop, [{**GOOD, "user": "bob"}], **key)

    assert first.json() == again.json() == after_restart.json()
    assert len(records(open_shop)) == before + 1
    assert other.status_code == 409
    assert "`call-again` came with another call" in other.json()["err_msg"]


def test_columns_are_the_same_rows(open_shop: House) -> None:
    before = len(records(open_shop))

    answer = log(open_shop, {name: [value, value] for name, value in GOOD.items()})

    assert answer.json()["accepted"] == 2
    assert records(open_shop)[before]["rows"] == [GOOD, GOOD]


def test_columns_that_no_dataset_reads_are_counted(open_shop: House) -> None:
    rows = [GOOD | {"colour": "red"}, GOOD | {"colour": None, "size": 3}, GOOD]

    answer = log(open_shop, rows)

    assert answer.json()["accepted"] == 3
    assert answer.json()["unread"] == {"colour": 2, "size": 1}
    assert "unread" not in log(open_shop, [GOOD]).json()


def test_a_call_with_bad_rows_is_refused_whole_and_names_each(open_shop: House) -> None:
    before = len(records(open_shop))
    rows = [
        GOOD,
        {**GOOD, "amount": "much"},
        {**GOOD, "user": None, "ordered_at": "yesterday"},
        {"user": "eve"},
    ]

    answer = log(open_shop, rows)

    assert answer.status_code == 400
    said = answer.json()
    assert said["err_msg"].startswith(f"{len(said['errors'])} problems; no row was accepted")
    assert not [problem for problem in said["errors"] if problem.startswith("row 0,")]
    for start in (
        "row 1, Orders: `amount`",
        "row 2, Orders: `user`",
        "row 2, Orders: `at`",
        "row 3, Orders: `test`",
    ):
        assert [p for p in said["errors"] if p.startswith(start)], (start, said["errors"])
    assert len(records(open_shop)) == before


def test_rows_that_where_does_not_want_are_counted(open_shop: House) -> None:
    answer = log(open_shop, [GOOD, {**GOOD, "test": True}])

    assert answer.json()["left_out"] == 1


def test_a_bare_number_of_an_instant_is_milliseconds_and_travels_as_text(open_shop: House) -> None:
    before = len(records(open_shop))

    assert log(open_shop, [{**GOOD, "ordered_at": 1_767_323_045_000}]).status_code == 200

    (row,) = records(open_shop)[before]["rows"]
    assert row["ordered_at"].startswith("2026-01-02T03:04:05")


def test_an_empty_call_appends_no_record(open_shop: House) -> None:
    before = len(records(open_shop))

    assert log(open_shop, []).json() == {"accepted": 0, "left_out": 0}
    assert len(records(open_shop)) == before


@pytest.mark.parametrize(
    ("call", "status"),
    [
        ({"webhook": "shop", "endpoint": "nowhere", "data": [GOOD]}, 404),
        ({"webhook": "shop", "endpoint": "orders", "data": {"user": ["a"], "amount": []}}, 400),
        ({"webhook": "shop", "endpoint": "orders"}, 400),
        ({"webhook": "shop", "endpoint": "orders", "data": [GOOD], "more": 1}, 400),
        ({"webhook": "shop", "endpoint": "orders", "data": [[1]]}, 400),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_with_a_reason(
    open_shop: House, call: dict[str, Any], status: int
) -> None:
    before = len(records(open_shop))

    answer = open_shop.client.post("/api/v1/log", json=call)

    assert answer.status_code == status
    assert answer.json()["err_msg"]
    assert len(records(open_shop)) == before


def test_accepted_rows_are_counted_in_the_metrics(open_shop: House) -> None:
    assert log(open_shop, [GOOD]).status_code == 200

    text = open_shop.client.get("/api/v1/metrics").text

    assert 'narthex_rows_accepted_total{endpoint="orders",webhook="shop"}' in text
    assert TOKEN not in text


def test_a_call_larger_than_a_record_is_refused(open_shop: House) -> None:
    before = len(records(open_shop))

    answer = log(open_shop, [{**GOOD, "user": "x" * (17 << 20)}])

    assert answer.status_code == 413
    assert len(records(open_shop)) == before
