"""The entities that no query has read for some time, by real queries in rounds of past days."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex._ir import AssetKind
from narthex_ledger import Ledger, ReadKind, Signer
from narthex_server.operations.usage_sampling import UsageSampling
from narthex_server.security.route_rights import Right
from narthex_stores import HistoryAdapter, index_store
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import catch_up, serve
from tests.server.security.test_visibility import said
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SPENT = {"inputs": ["Buyer.user"], "outputs": ["Buyer.spent"], "data": {"Buyer.user": ["ada"]}}


@attrs.define
class Days:
    """The rounds of a server, on past days."""

    house: House
    opened: list[Ledger] = attrs.field(factory=list)

    def round(self, days_ago: float) -> None:
        """Do a round as a server that has just started, some days ago."""
        found = self.house.services
        ledger = Ledger(
            found.settings.ledger_dsn,
            clock_shift=-dt.timedelta(days=days_ago),
            signer=Signer.load(found.settings.signing_key),
        )
        self.opened.append(ledger)
        UsageSampling(attrs.evolve(found, ledger=ledger)).sample()

    def unread(self, client: TestClient | None = None, **asked: Any) -> Any:
        answer = (client or self.house.client).get("/api/v1/unread", params=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def stored(tmp_path: Path, ledger_dsn: str) -> Iterator[Days]:
    """A shop that serves, with indexes and histories on this disk."""
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {
        AssetKind.INDEX: index_store(settings).adapter(),
        AssetKind.HISTORY: HistoryAdapter(history_dir=settings.history_dir),
    }
    with house_at(settings, adapters=adapters) as house:
        serve(house, shop_definitions())
        days = Days(house)
        yield days
        for ledger in days.opened:
            ledger.close()


def ask(house: House, **more: Any) -> None:
    answer = house.client.post("/api/v1/query", json=SPENT | more)
    assert (answer.status_code, answer.json()) == (200, {"Buyer.spent": [0.0]}), answer.text


def days_since(instant: str) -> float:
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(instant)) / dt.timedelta(days=1)


def named(found: list[Any]) -> dict[str, Any]:
    return {one["name"]: one for one in found}


def test_entities_without_a_read_have_the_instant_since_which_it_counts(
    stored: Days,
) -> None:
    before = stored.unread()
    stored.round(12)
    young = stored.unread()
    certain = stored.unread(days=10)

    assert {one["name"]: one["counted_since"] for one in before["datasets"]} == dict.fromkeys(
        ("Orders", "Spend", "Users")
    )
    for found, is_certain in ((before, False), (young, False), (certain, True)):
        every = [*found["datasets"], *found["featuresets"], *found["branches"]]
        assert [one["name"] for one in every] == ["Orders", "Spend", "Users", "Buyer", "main"]
        assert {one["is_certain"] for one in every} == {is_certain}
        assert {one["last_read"] for one in every} == {None}
    for one in (*certain["datasets"], *certain["featuresets"], *certain["branches"]):
        assert days_since(one["counted_since"]) == pytest.approx(12, abs=0.01)
    assert (certain["days"], days_since(certain["since"])) == (10, pytest.approx(10, abs=0.01))


def test_a_query_is_the_last_read_of_its_datasets_and_of_their_inputs(stored: Days) -> None:
    stored.round(60)
    ask(stored.house)
    stored.round(40)
    unread = stored.unread()

    found = named(unread["datasets"])
    assert found["Users"]["last_read"] is None
    assert {name: found[name]["read_through"] for name in found} == {
        "Orders": "Spend",
        "Spend": "Spend",
        "Users": None,
    }
    for one in (found["Orders"], found["Spend"], *unread["featuresets"], *unread["branches"]):
        assert days_since(one["last_read"]) == pytest.approx(40, abs=0.01), one["name"]
    (buyer,) = unread["featuresets"]
    assert (len(buyer["features"]), buyer["of"]) == (6, 6)

    ask(stored.house)
    assert stored.unread() | {"since": ""} == unread | {"since": ""}
    stored.round(3)
    later = stored.unread()
    # `Orders` feeds `Spend`, and `user` is the key by which `spent` was looked up.
    assert [one["name"] for one in later["datasets"]] == ["Users"]
    assert later["featuresets"][0]["features"] == ["orders_1h", "country", "is_busy", "rank"]
    assert later["branches"] == []
    assert [one["name"] for one in stored.unread(days=2)["datasets"]] == [
        "Orders",
        "Spend",
        "Users",
    ]


def test_lookups_and_offline_queries_read_and_inspections_do_not(stored: Days) -> None:
    stored.round(60)
    client = stored.house.client
    assert client.get("/api/v1/dataset/Users/inspect").json() == []
    assert client.get("/api/v1/dataset/Spend/inspect").json() == []
    refused = client.post("/api/v1/query", json=SPENT | {"outputs": ["Buyer.unknown"]})
    assert refused.status_code == 400
    stored.round(1)
    assert len(stored.unread()["datasets"]) == 3

    looked_up = {"keys": [{"user": "ada"}], "fields": ["country"]}
    answer = client.post("/api/v1/dataset/Users/lookup", json=looked_up)
    assert answer.json()["found"] == [False], answer.text
    stored.round(0.5)
    assert [one["name"] for one in stored.unread()["datasets"]] == ["Orders", "Spend"]

    rows = {"Buyer.user": ["ada"], "at": ["2026-01-02T00:00:00Z"]}
    query = SPENT | {"timestamp_column": "at", "data": rows}
    assert client.post("/api/v1/query_offline", json=query).is_success
    stored.round(0.25)
    assert stored.unread()["datasets"] == []


def test_reads_outlive_the_server_and_are_stored_when_it_stops(
    stored: Days, tmp_path: Path, ledger_dsn: str
) -> None:
    stored.round(60)
    ask(stored.house)
    loop = UsageSampling(stored.house.services).loop()
    loop.start()
    loop.stop()

    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as restarted:
        assert restarted.services.meters.reads.take() == {}
        unread = Days(restarted).unread()
        UsageSampling(restarted.services).sample()
        assert [one["name"] for one in unread["datasets"]] == ["Users"]
        assert unread["datasets"] == Days(restarted).unread()["datasets"]
        (users,) = unread["datasets"]
        assert days_since(users["counted_since"]) == pytest.approx(60, abs=0.01)


def test_a_branch_is_read_by_its_own_queries_only_and_shares_its_jobs(stored: Days) -> None:
    client = stored.house.client
    dev = {"x-narthex-branch": "dev"}
    assert client.post("/api/v1/init", json={"clone_from": "main"}, headers=dev).is_success
    catch_up(stored.house)
    assert client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "empty"}).is_success
    stored.round(60)
    ask(stored.house)
    stored.round(1)

    found = named(stored.unread()["branches"])
    assert found.keys() == {"dev", "empty"}
    running = len(stored.house.services.served.now()[0].jobs)
    assert (found["dev"]["jobs"], found["dev"]["own_jobs"]) == (running, 0)
    assert (found["empty"]["jobs"], found["empty"]["own_jobs"]) == (0, 0)
    assert {found[name]["is_certain"] for name in found} == {True}
    of_dev = client.get("/api/v1/unread", headers=dev).json()
    assert [one["name"] for one in of_dev["datasets"]] == ["Orders", "Spend", "Users"]
    of_empty = client.get("/api/v1/unread", headers={"x-narthex-branch": "empty"}).json()
    assert (of_empty["datasets"], of_empty["featuresets"]) == ([], [])
    nowhere = client.get("/api/v1/unread", headers={"x-narthex-branch": "nowhere"})
    assert nowhere.status_code == 404

    reader = stored.house.ledger.last_reads
    main = stored.house.ledger.branches.get(stored.house.services.tenant, "main")
    assert reader.of_branch(main.branch_id)[ReadKind.DATASET, "Users"].read_at is None


def test_the_costs_of_a_dataset_are_those_that_are_known(stored: Days) -> None:
    stored.round(60)
    found = named(stored.unread()["datasets"])
    paths = {one["name"]: one["index_bytes"] for one in found.values()}
    own = {name: (one["jobs"], one["own_jobs"]) for name, one in found.items()}

    assert paths.pop("Orders") is None
    assert all(isinstance(one, int) and one >= 8192 for one in paths.values()), paths
    assert all(one["history_bytes"] >= 4096 for one in found.values()), found
    # No broker answers here.
    assert {one["rows"] for one in found.values()} == {None}
    # A source or a pipeline, a feed of the history, and one of the index.
    assert own == {"Orders": (2, 2), "Spend": (3, 3), "Users": (3, 3)}


def test_hidden_readers_count_and_are_not_named(stored: Days) -> None:
    house = stored.house
    serve(house, said(shop_definitions(), "Spend", "money"))
    stored.round(60)
    token = "nx_tests_narrow"
    house.ledger.tokens.put(token, name="narrow", scopes=tuple(Right), tags=("pii",))
    narrow = TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})

    unread = stored.unread(narrow)
    assert [one["name"] for one in unread["datasets"]] == ["Orders", "Users"]
    assert [one["features"] for one in unread["featuresets"]] == [["user", "country"]]
    assert unread["branches"] == []
    ask(house)
    stored.round(40)
    (orders, _) = stored.unread(narrow)["datasets"]
    assert days_since(orders["last_read"]) == pytest.approx(40, abs=0.01)
    assert orders["read_through"] is None
    assert named(stored.unread()["datasets"])["Orders"]["read_through"] == "Spend"
