"""Branches and tags hold where branches share an endpoint: for readers, authors and writers."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from narthex._base.origin import Origin
from narthex._ir.connections import KafkaTopic, WebhookEndpoint
from narthex._ir.entities import Cdc, Connector, Definitions, Sink
from narthex._sdk.commit_definitions import definitions
from tests.security.test_policy_doors import LastOrders, client_of, commit
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import accept, create_all, serve, step
from tests.server.security.test_visibility import said
from tests.server.shop import Orders, Users, shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROW = {"user": "ada", "country": "UK", "since": "2026-01-01T00:00:00Z"}
USERS = WebhookEndpoint(webhook="shop", endpoint="users")
CLUSTER = '\n[egress]\nallow = ["b.example.com:9092"]\n'
TOPIC = KafkaTopic(name="k", bootstrap_servers="b.example.com:9092", topic="people")


def people(connector: Connector, name: str, *tags: str) -> Definitions:
    """Return users under another name, from another source."""
    (users,) = definitions([Users], []).datasets
    source = attrs.evolve(users.sources[0], connector=connector)
    made = Definitions(
        datasets=(attrs.evolve(users, name=name, sources=(source,)),), featuresets=()
    )
    return said(made, name, *tags)


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str) -> Iterator[House]:
    """Users with a tag on main; a branch of others that has nothing yet."""
    home = tmp_path_factory.mktemp("home")
    settings = settings_at(home, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, said(shop_definitions(), "Users", "pii"))
        house.client.post("/api/v1/init", json={}, headers={"x-narthex-branch": "dev/a"})
        rule(house, "")
        yield house


def rule(house: House, text: str) -> None:
    (house.services.settings.home / "policy.toml").write_text(text + CLUSTER)


def to_head(house: House, wanted: Definitions, **headers: str) -> None:
    """Deploy definitions without running their jobs."""
    commit_id = accept(house.client, wanted, **headers)
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)


def fed(client: Any, *, branch: str) -> set[str]:
    answer = client.get("/api/v1/lineage", headers={"x-narthex-branch": branch})
    return {one["name"] for one in answer.json()["nodes"]}


def log(client: Any, endpoint: str, *, branch: str = "main", data: Any = ()) -> Any:
    body = {"webhook": "shop", "endpoint": endpoint, "data": list(data)}
    return client.post("/api/v1/log", json=body, headers={"x-narthex-branch": branch})


def looked_up(client: Any, name: str, *, branch: str) -> int:
    keys = [{"user": "ada"}]
    answer = client.post(
        f"/api/v1/dataset/{name}/lookup",
        json={"keys": keys},
        headers={"x-narthex-branch": branch},
    )
    return int(answer.status_code)


def shown(client: Any, *, branch: str) -> set[str]:
    answer = client.get("/api/v1/datasets", headers={"x-narthex-branch": branch})
    return {one["name"] for one in answer.json()["datasets"]}


@pytest.mark.parametrize(("connector", "of_main"), [(USERS, "Users"), (TOPIC, "People")])
def test_an_untagged_dataset_of_another_branch_has_the_tags_of_what_it_shares(
    house: House, connector: Connector, of_main: str
) -> None:
    if connector is TOPIC:
        to_head(house, people(TOPIC, "People", "pii"))
    to_head(house, people(connector, "Plain"), **{"x-narthex-branch": "dev/a"})
    blind = client_of(house, f"blind-{of_main}", "reader", tags=("team-*",))
    cleared = client_of(house, f"cleared-{of_main}", "reader", tags=("pii",))

    assert "Plain" not in fed(blind, branch="dev/a")
    assert "Plain" in fed(cleared, branch="dev/a")


def test_a_reader_cannot_look_up_shared_tagged_rows(house: House) -> None:
    serve(house, people(USERS, "Plain"), **{"x-narthex-branch": "dev/a"})
    blind = client_of(house, "blind", "reader", tags=("team-*",))
    cleared = client_of(house, "cleared", "reader", tags=("pii",))

    assert "Plain" not in shown(blind, branch="dev/a")
    assert looked_up(blind, "Plain", branch="dev/a") == 404
    assert "Plain" in shown(cleared, branch="dev/a")


def test_rows_that_a_sink_writes_keep_their_tags(house: House) -> None:
    (orders, last) = definitions([Orders, LastOrders], []).datasets
    sink = Sink(target=TOPIC, cdc=Cdc.DEBEZIUM, origin=Origin(file="shop.py", line=7))
    told = Definitions(datasets=(orders, attrs.evolve(last, sinks=(sink,))), featuresets=())
    rule(house, '[[topics]]\nname = "people"\nbranches = ["*"]\nwrite = true\n')
    to_head(house, said(told, "Orders", "money"))
    to_head(house, people(TOPIC, "Plain"), **{"x-narthex-branch": "dev/a"})
    blind = client_of(house, "blind", "reader", tags=("team-*",))

    assert "Plain" not in fed(blind, branch="dev/a")
    assert "Plain" in fed(house.client, branch="dev/a")


def test_an_untagged_dataset_of_the_same_branch_has_them_too(house: House) -> None:
    serve(
        house,
        Definitions(
            datasets=(
                *said(shop_definitions(), "Users", "pii").datasets,
                *people(USERS, "Plain").datasets,
            ),
            featuresets=shop_definitions().featuresets,
        ),
    )
    blind = client_of(house, "blind", "reader", tags=("team-*",))

    assert {"Users", "Plain"} & shown(blind, branch="main") == set()


def test_a_rule_tags_what_an_endpoint_feeds(house: House) -> None:
    blind = client_of(house, "blind", "reader", tags=("team-*",))
    before = shown(blind, branch="main")
    rule(house, '[[endpoints]]\nname = "shop/orders"\nbranches = ["*"]\ntags = ["money"]\n')

    assert "Orders" in before
    assert {"Orders", "Spend"} & shown(blind, branch="main") == set()
    assert looked_up(blind, "Spend", branch="main") == 404


def test_an_author_cannot_bind_a_source_with_hidden_tags(house: House) -> None:
    author = {"branches": ("*",), "tags": ("team-*",)}
    blind = client_of(house, "blind", "author", **author)  # type: ignore[arg-type]
    cleared = client_of(house, "cleared", "author", tags=("pii",))

    answer = commit(blind, people(USERS, "Plain"), branch="dev/a")

    assert answer.status_code == 403
    assert "pii" not in answer.text
    assert commit(cleared, people(USERS, "Plain"), branch="dev/a").status_code == 200


def test_an_author_binds_no_endpoint_of_a_branch_that_the_token_may_not_name(
    house: House,
) -> None:
    orders = WebhookEndpoint(webhook="shop", endpoint="orders")
    narrow = client_of(house, "narrow", "author", branches=("dev/*",))
    wide = client_of(house, "wide", "author", branches=("dev/*", "main"))
    own = WebhookEndpoint(webhook="shop", endpoint="mine")

    answer = commit(narrow, people(orders, "Plain"), branch="dev/a")

    assert answer.status_code == 403
    assert "main" not in answer.text
    assert commit(wide, people(orders, "Plain"), branch="dev/a").status_code == 200
    assert commit(narrow, people(own, "Plain"), branch="dev/a").status_code == 200


def test_a_rule_limits_the_branches_that_bind_an_endpoint(house: House) -> None:
    orders = WebhookEndpoint(webhook="shop", endpoint="orders")
    narrow = client_of(house, "narrow", "author", branches=("dev/*",))
    rule(house, '[[endpoints]]\nname = "shop/orders"\nbranches = ["main", "dev/*"]\n')

    assert commit(narrow, people(orders, "Plain"), branch="dev/a").status_code == 200
    rule(house, '[[endpoints]]\nname = "shop/orders"\nbranches = ["main"]\n')
    assert commit(narrow, people(orders, "Plain"), branch="dev/a").status_code == 400


def test_a_clone_keeps_its_endpoints_and_can_commit(house: House) -> None:
    author = client_of(house, "author", "author", branches=("main", "dev/*"))
    headers = {"x-narthex-branch": "dev/clone"}
    cloned = author.post("/api/v1/init", json={"clone_from": "main"}, headers=headers)
    assert cloned.status_code == 200, cloned.text
    narrow = client_of(house, "narrow", "author", branches=("dev/*",))

    answer = commit(narrow, said(shop_definitions(), "Spend", "team-x"), branch="dev/clone")

    assert answer.status_code == 200, answer.text


def test_a_token_of_another_branch_writes_no_rows_for_main(house: House) -> None:
    serve(house, people(USERS, "Plain"), **{"x-narthex-branch": "dev/a"})
    house.client.post(
        "/api/v1/init", json={"clone_from": "main"}, headers={"x-narthex-branch": "dev/clone"}
    )
    narrow = client_of(house, "narrow", "ingest", branches=("dev/*",))
    of_main = client_of(house, "of-main", "ingest", branches=("main",))

    missing = log(narrow, "nobody", branch="dev/a")
    answers = [
        log(narrow, "users", branch="dev/a"),
        log(narrow, "users", branch="dev/clone"),
        log(narrow, "orders", branch="dev/clone"),
    ]

    assert [one.status_code for one in (missing, *answers)] == [404] * 4
    assert answers[0].text.replace("users", "nobody") == missing.text
    assert log(of_main, "users").status_code == 200
    assert log(house.client, "users", branch="dev/a").status_code == 200


def test_a_rule_limits_the_tokens_that_write_to_an_endpoint(house: House) -> None:
    serve(house, people(USERS, "Plain"), **{"x-narthex-branch": "dev/a"})
    narrow = client_of(house, "narrow", "ingest", branches=("dev/*",))

    rule(house, '[[endpoints]]\nname = "shop/users"\nbranches = ["main", "dev/*"]\n')
    assert log(narrow, "users", branch="dev/a").status_code == 200
    rule(house, '[[endpoints]]\nname = "shop/users"\nbranches = ["main"]\n')
    assert log(narrow, "users", branch="dev/a").status_code == 404


def test_a_token_without_the_tag_writes_to_no_endpoint_that_carries_it(house: House) -> None:
    serve(house, people(USERS, "Plain"), **{"x-narthex-branch": "dev/a"})
    blind = client_of(house, "blind", "ingest", tags=("team-*",))

    assert log(blind, "users", branch="dev/a").status_code == 404
