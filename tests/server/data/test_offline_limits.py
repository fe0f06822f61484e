"""Offline queries of one token are bounded, and their answers name no file of the server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex_ledger import OfflineState
from narthex_server.security.route_rights import Right
from narthex_stores import HistoryAdapter
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.data.test_training_sets import FEATURES, SPINE, answer_next
from tests.server.driving import serve
from tests.server.security.test_visibility import tagged_shop

pytestmark = pytest.mark.postgres

MOST = 2
COLUMNS: dict[str, Any] = {
    name: [str(value) if name == "timestamp" else value for value in values]
    for name, values in SPINE[["Buyer.user", "Buyer.orders_1h", "timestamp"]]
    .to_dict("list")
    .items()
}
CALL: dict[str, Any] = {
    "inputs": ["Buyer.user", "Buyer.orders_1h"],
    "outputs": FEATURES,
    "timestamp_column": "timestamp",
    "data": COLUMNS,
}


@pytest.fixture
def shop(tmp_path: Path, ledger_dsn: str) -> Iterator[House]:
    settings = attrs.evolve(
        settings_at(tmp_path / "home-of-the-server", dsn=ledger_dsn, kafka=NOBODY),
        offline_queries_per_token=MOST,
    )
    adapters = {**in_memory(), AssetKind.HISTORY: HistoryAdapter(history_dir=settings.history_dir)}
    with house_at(settings, adapters=adapters) as house:
        serve(house, tagged_shop())
        yield house


def caller(shop: House, name: str) -> TestClient:
    token = f"nx_{name}"
    shop.ledger.tokens.put(token, name=name, scopes=tuple(Right), token_id=name)
    return TestClient(shop.client.app, headers={"authorization": f"Bearer {token}"})


def ask(client: TestClient) -> Any:
    return client.post("/api/v1/query_offline", json=CALL)


def test_a_token_with_many_open_queries_is_refused_and_others_are_not(shop: House) -> None:
    ada, bob = caller(shop, "ada"), caller(shop, "bob")
    queued = [ask(ada).json()["request_id"] for _ in range(MOST)]

    refused = ask(ada)
    set_refused = ada.post("/api/v1/training_sets", json=CALL | {"name": "fraud"})
    others = ask(bob)
    ada.post("/api/v1/query_offline/cancel", params={"request_id": queued[0]})
    again = ask(ada)

    assert (refused.status_code, refused.json()["detail"]) == (429, {"most": MOST})
    assert refused.json()["err_msg"] == (
        "[NX1114] the token has 2 offline queries that wait or run, and may have 2\n"
        "hint: wait until one has ended, or cancel one with `narthex offline cancel`; an operator "
        "can raise `NARTHEX_OFFLINE_QUERIES_PER_TOKEN`"
    )
    assert set_refused.status_code == 429
    assert (others.status_code, again.status_code) == (200, 200)


def test_a_refused_query_leaves_no_files(shop: House) -> None:
    ada = caller(shop, "ada")
    for _ in range(MOST + 1):
        ask(ada)

    assert len(list(shop.services.settings.offline_dir.iterdir())) == MOST


def test_no_answer_about_a_query_or_a_training_set_has_a_path_of_the_server(shop: House) -> None:
    home = str(shop.services.settings.home)
    client = shop.client
    made = client.post("/api/v1/training_sets", json=CALL | {"name": "fraud"}).json()
    answer_next(shop)
    query, named = {"request_id": made["request_id"]}, "/api/v1/training_sets/fraud"
    answers = [
        client.post(named, json=query),
        client.get(named),
        client.get("/api/v1/training_sets"),
        client.get(f"{named}/rows"),
        client.get("/api/v1/offline_queries"),
        client.get("/api/v1/query_offline/status", params=query),
        client.get("/api/v1/query_offline/answers", params=query),
    ]

    assert {answer.status_code for answer in answers} == {200}
    assert [answer.url.path for answer in answers if home in answer.text] == []
    assert len(answers[-1].json()[FEATURES[0]]) == len(SPINE)


def test_the_error_of_a_query_has_no_path_of_the_server(shop: House) -> None:
    home = str(shop.services.settings.home)
    request_id = ask(shop.client).json()["request_id"]
    (shop.services.settings.offline_directory(request_id) / "spine.parquet").unlink()

    with pytest.raises(FileNotFoundError, match=home):
        answer_next(shop)
    status = shop.client.get("/api/v1/query_offline/status", params={"request_id": request_id})

    assert status.json()["status"] == OfflineState.FAILED.value
    assert home not in json.dumps(status.json())
    assert "$NARTHEX_HOME/offline" in status.json()["error"]
