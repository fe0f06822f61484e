"""Logged answers are compared with training sets and windows, by tasks and by people."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from narthex._base import Json, from_plain
from narthex._drift import FeatureKind, FeatureSummary, summary_of
from narthex.errors import Refused
from tests.server.calling import TestClient
from tests.server.conftest import DAGS_TOKEN
from tests.server.data.test_training_sets import FEATURES, SPINE, Shop, shop, whole_shop

__all__ = ["shop", "whole_shop"]

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

HOUR = dt.timedelta(hours=1)
NOW = dt.datetime.now(tz=dt.UTC).replace(minute=0, second=0, microsecond=0)
SPAN = {"from": (NOW - HOUR).isoformat(), "to": NOW.isoformat()}
LARGE = SPINE.iloc[[0, 1, 2] * 100].assign(label=[*range(300)])
BUSY = "Buyer.is_busy"
LIKE_TRAINING = [False, True, True] * 100
COUNTRY = "Buyer.country"


@pytest.fixture
def dags(shop: Shop) -> Iterator[TestClient]:
    """A client with the token of Airflow's tasks."""
    with TestClient(
        shop.house.client.app, headers={"authorization": f"Bearer {DAGS_TOKEN}"}
    ) as client:
        yield client


def posted(
    client: TestClient, values: Sequence[Json], *, hours_ago: int = 1, feature: str = BUSY
) -> Any:
    """Add the answers of an hour as the task does."""
    offsets = client.get("/api/v1/feature_summaries/state").json()["offsets"]
    at = int(offsets.get("0", 0))
    body = {
        "start": {"0": at},
        "end": {"0": at + 1},
        "summaries": [
            {
                "branch": "main",
                "feature": feature,
                "hour": (NOW - hours_ago * HOUR).isoformat(),
                "summary": summary_of(values, FeatureKind.CATEGORY).plain(),
            }
        ],
    }
    return client.post("/api/v1/feature_summaries", json=body)


@pytest.fixture(autouse=True)
def empty(shop: Shop) -> Iterator[None]:
    """Delete summaries, results and windows after each test."""
    yield
    shop.house.ledger.feature_summaries.forget(older_than=-30 * HOUR)
    for window in shop.house.ledger.drift.windows("main"):
        shop.house.ledger.drift.unpin("main", window.name)


def compared(client: TestClient, reference: str, *, kind: str = "training_set") -> Any:
    body = {"reference_kind": kind, "reference": reference, **SPAN}
    answer = client.post("/api/v1/drift", json=body)
    assert answer.is_success, answer.text
    return answer.json()["drift"]


def test_the_state_has_offsets_and_the_kinds_of_all_features(dags: TestClient) -> None:
    state = dags.get("/api/v1/feature_summaries/state").json()

    assert state["kinds"]["main"][BUSY] == "category"
    assert state["kinds"]["main"]["Buyer.orders_1h"] == "number"


def test_a_task_stores_summaries_once_and_people_read_them(shop: Shop, dags: TestClient) -> None:
    assert posted(dags, [True, None]).json() == {"stored": 1}
    stale = {"start": {"0": 0}, "end": {"0": 1}, "summaries": []}
    assert posted(dags, [True]).is_success
    assert dags.post("/api/v1/feature_summaries", json=stale).status_code == 409

    (found,) = shop.client.feature_statistics()

    assert found["feature"] == BUSY
    assert found["statistics"]["top"] == [[True, 2]]
    assert (found["statistics"]["rows"], found["statistics"]["nulls"]) == (3, 1)
    assert shop.client.feature_statistics(featuresets=["Other"]) == []
    assert shop.client.feature_statistics(end=NOW - HOUR) == []


def test_the_task_may_not_read_values(dags: TestClient) -> None:
    for path in ("feature_summaries", "drift/comparison"):
        assert dags.get(f"/api/v1/{path}").status_code == 403


@pytest.mark.parametrize(
    "change",
    [
        {"hour": (NOW + dt.timedelta(minutes=1)).isoformat()},
        {"summary": {"kind": "category"}},
        {"summary": None},
    ],
)
def test_malformed_summaries_are_refused(dags: TestClient, change: dict[str, Any]) -> None:
    summary = FeatureSummary(kind=FeatureKind.OPAQUE).plain()
    one = {"branch": "main", "feature": BUSY, "hour": NOW.isoformat(), "summary": summary}

    body = {"start": {}, "end": {}, "summaries": [one | change]}

    assert dags.post("/api/v1/feature_summaries", json=body).status_code in {400, 422}


def test_an_hour_like_the_training_set_has_no_drift_and_another_has(
    shop: Shop, dags: TestClient
) -> None:
    shop.client.training_set("fraud", LARGE, FEATURES)
    posted(dags, LIKE_TRAINING)

    (calm,) = compared(dags, "fraud")
    posted(dags, [True] * 3000)
    (moved,) = compared(dags, "fraud")

    assert (calm["severity"], calm["is_compared"], calm["rows"]) == (None, True, 300)
    assert (moved["severity"], moved["feature"]) == ("critical", BUSY)
    assert moved["metrics"]["psi"]["severity"] == "critical"
    listed = dags.get("/api/v1/drift").json()["drift"]
    assert [(one["feature"], one["severity"]) for one in listed] == [(BUSY, "critical")]
    (finding,) = shop.client.drift_findings()
    assert (finding["feature"], finding["reference"]) == (BUSY, "fraud")


def test_a_feature_with_few_answers_is_compared_over_the_day(shop: Shop, dags: TestClient) -> None:
    shop.client.training_set("fraud", LARGE, FEATURES)
    posted(dags, [False] * 20)
    (few,) = compared(dags, "fraud")
    posted(dags, [False] * 90, hours_ago=9)

    (day,) = compared(dags, "fraud")

    assert (few["is_compared"], few["rows"]) == (False, 20)
    assert (day["is_compared"], day["rows"], day["severity"]) == (True, 110, "critical")
    assert day["from"] == (NOW - 24 * HOUR).isoformat()


def test_each_feature_is_compared_with_the_newest_set_that_has_it(
    shop: Shop, dags: TestClient
) -> None:
    shop.client.training_set("old", LARGE, FEATURES)
    shop.client.training_set("new", LARGE, FEATURES[:1])

    found = dags.get("/api/v1/drift/references").json()["references"]

    assert found == [
        {"kind": "training_set", "name": "new", "features": [BUSY]},
        {"kind": "training_set", "name": "old", "features": [COUNTRY]},
    ]
    posted(dags, LIKE_TRAINING)
    assert [one["feature"] for one in compared(dags, "new")] == [BUSY]
    assert compared(dags, "old") == []
    # A person who names a set compares all of its features.
    assert [one["feature"] for one in shop.client.drift(training_set="old")] == [BUSY]
    assert {one["reference"] for one in shop.client.drift()} == {"new"}


def test_answers_are_compared_with_a_pinned_window(shop: Shop, dags: TestClient) -> None:
    posted(dags, LIKE_TRAINING, hours_ago=5)
    start, end = NOW - 6 * HOUR, NOW - 4 * HOUR
    assert shop.client.pin_window("calm", start=start, end=end) == [BUSY]
    posted(dags, [True] * 300)

    (moved,) = compared(dags, "calm", kind="window")

    assert (moved["severity"], moved["reference_rows"]) == ("critical", 300)
    assert dags.get("/api/v1/drift/references").json()["references"] == [
        {"kind": "window", "name": "calm", "features": [BUSY]}
    ]
    windows = shop.client.read("drift/windows")["windows"]
    assert isinstance(windows, list)
    (window,) = windows
    assert (window["from"], window["to"]) == (start.isoformat(), end.isoformat())
    shop.client.unpin_window("calm")
    with pytest.raises(Refused, match="there is no window `calm`"):
        shop.client.unpin_window("calm")
    with pytest.raises(Refused, match="there is no window `calm`"):
        shop.client.drift(window="calm")


def test_a_window_of_hidden_features_only_is_empty(shop: Shop, dags: TestClient) -> None:
    start, end = NOW - 6 * HOUR, NOW - 4 * HOUR
    refusals = []
    for _ in range(2):
        with pytest.raises(Refused, match="no logged answers") as refused:
            shop.ada.pin_window("calm", start=start, end=end)
        refusals.append((refused.value.status_code, str(refused.value)))
        posted(dags, ["NO"] * 300, hours_ago=5, feature=COUNTRY)

    assert refusals[0] == refusals[1]
    assert shop.client.pin_window("calm", start=start, end=end) == [COUNTRY]


def test_hidden_features_are_not_compared(shop: Shop, dags: TestClient) -> None:
    shop.client.training_set("whole", LARGE, FEATURES)
    posted(dags, LIKE_TRAINING)
    posted(dags, ["NO"] * 300, feature=COUNTRY)
    compared(dags, "whole")

    assert len(shop.client.drift()) == 2
    assert shop.ada.drift() == []
    assert [one["feature"] for one in shop.ada.feature_statistics()] == [BUSY]
    listed = shop.ada.read("drift")["drift"]
    assert [one["feature"] for one in listed] == [BUSY]
    with pytest.raises(Refused, match="there is no training set `whole`"):
        shop.ada.drift(training_set="whole")


def put_column(
    client: TestClient, values: Sequence[Json], *, hours_ago: int = 1, column: str = "orders"
) -> Any:
    """Store the rows of an hour as the task does."""
    summary = {
        "branch": "main",
        "dataset": "Orders",
        "column": column,
        "hour": (NOW - hours_ago * HOUR).isoformat(),
        "summary": summary_of(values, FeatureKind.NUMBER).plain(),
    }
    return client.post("/api/v1/column_summaries", json={"summaries": [summary]})


def test_a_task_reads_the_datasets_and_the_newest_hour_of_each(dags: TestClient) -> None:
    def newest() -> object:
        datasets = dags.get("/api/v1/column_summaries/state").json()["datasets"]
        (orders,) = [
            one for one in datasets if (one["branch"], one["dataset"]) == ("main", "Orders")
        ]
        assert from_plain(orders["plan"])
        return orders["newest"]

    assert newest() is None

    put_column(dags, [1], hours_ago=3)
    put_column(dags, [1], hours_ago=2)

    assert newest() == (NOW - 2 * HOUR).isoformat()


def test_statistics_of_columns_are_replaced_by_the_hour(shop: Shop, dags: TestClient) -> None:
    assert put_column(dags, [1, 2], hours_ago=2).json() == {"stored": 1}
    put_column(dags, [3, None])
    put_column(dags, [3, 4, None])

    (found,) = shop.client.column_statistics(datasets=["Orders"])

    assert found["column"] == "Orders.orders"
    statistics: Any = found["statistics"]
    assert (statistics["rows"], statistics["nulls"], statistics["mean"]) == (5, 1, 2.5)
    assert shop.client.column_statistics(datasets=["Users"]) == []
    assert shop.client.feature_statistics() == []
    assert dags.get("/api/v1/column_summaries").status_code == 403


def test_columns_are_compared_with_a_pinned_window(shop: Shop, dags: TestClient) -> None:
    put_column(dags, [*range(100)] * 3, hours_ago=5)
    posted(dags, LIKE_TRAINING, hours_ago=5)
    start, end = NOW - 6 * HOUR, NOW - 4 * HOUR
    pinned = shop.client.pin_window("calm", start=start, end=end)
    assert set(pinned) == {BUSY, "Orders.orders"}
    put_column(dags, [*range(100, 200)] * 3)

    (moved,) = compared(dags, "calm", kind="window")

    assert (moved["feature"], moved["severity"]) == ("Orders.orders", "critical")
    (finding,) = shop.client.drift_findings()
    assert finding["feature"] == "Orders.orders"
    assert [one["feature"] for one in shop.client.drift(datasets=["Orders"])] == ["Orders.orders"]
    assert [one["feature"] for one in shop.client.drift(featuresets=["Buyer"])] == [BUSY]


def test_empty_and_endless_spans_are_refused(shop: Shop) -> None:
    for start, end in ((NOW, NOW), (NOW - 800 * HOUR, NOW)):
        with pytest.raises(Refused, match="more than 31 days"):
            shop.client.drift(start=start, end=end)
    with pytest.raises(Refused, match="both or neither"):
        shop.client.read("drift/comparison", {"reference": "fraud"})
