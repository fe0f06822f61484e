"""The status of an entity follows from its jobs, its alerts and its inputs."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from narthex_server.console.entity_status import (
    MEANINGS,
    ORDER,
    SYMBOLS,
    EntityStatus,
    StatusKind,
    entity_statuses,
    status_of_job,
)
from narthex_server.console.lineage_graph import EntityNode, Graph, read
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres


@attrs.frozen(kw_only=True)
class ShopStatus:
    """The shop of a real server, with its jobs, of which a test changes some."""

    house: House
    graph: Graph
    jobs: list[dict[str, Any]]

    def of(
        self,
        *,
        alerts: Sequence[dict[str, Any]] = (),
        **changes: dict[str, Any],
    ) -> dict[EntityNode, EntityStatus]:
        """Return the statuses with jobs changed by the dataset and kind that name them."""
        caught_up = {"phase": "caught_up", "error": None}
        jobs = [
            job
            | caught_up
            | changes.get(f"{job['label'].split()[0].split('.')[0]}_{job['kind']}", {})
            for job in self.jobs
        ]
        bindings = self.house.services.snapshots.head("main").bindings
        return entity_statuses(self.graph, bindings=bindings, jobs=jobs, alerts=alerts)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[ShopStatus]:
    settings = settings_at(tmp_path_factory.mktemp("shop"), dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, shop_definitions())
        yield ShopStatus(
            house=house,
            graph=read(house.client.get("/api/v1/lineage").json()),
            jobs=house.client.get("/api/v1/jobs").json()["jobs"],
        )


def alert(rule: str, subject: str) -> dict[str, Any]:
    return {"rule": rule, "subject": subject, "summary": f"{rule} of {subject}."}


def unhealthy(found: dict[EntityNode, EntityStatus]) -> dict[str, str]:
    return {name: one.status.value for (_, name), one in found.items() if one.status != "healthy"}


def test_all_is_healthy_when_jobs_are_caught_up_and_no_alert_fires(shop: ShopStatus) -> None:
    found = shop.of()

    assert unhealthy(found) == {}
    assert {name for _, name in found} >= {"Orders", "Spend", "Users", "Buyer", "Buyer.rank"}
    assert ("source", "webhook:shop/orders") in found


def test_a_failed_job_shows_in_all_that_it_feeds(shop: ShopStatus) -> None:
    found = shop.of(Users_stream_job={"phase": "failed", "error": "no such column"})

    assert unhealthy(found) == dict.fromkeys(
        ("Users", "webhook:shop/users", "Buyer.country", "Buyer"), "failing"
    )
    assert found["dataset", "Users"].reason.endswith("(stream_job): no such column")


def test_a_feature_is_behind_with_the_dataset_that_it_is_computed_from(shop: ShopStatus) -> None:
    found = shop.of(Spend_index_feed={"phase": "running", "behind": 12345})

    assert unhealthy(found) == dict.fromkeys(
        ("Spend", "Buyer", "Buyer.orders_1h", "Buyer.spent", "Buyer.is_busy"), "behind"
    ) | {"Buyer.rank": "behind"}
    assert found["feature", "Buyer.rank"].reason == (
        "Spend (index_feed) is running, 12,345 rows behind"
    )


@pytest.mark.parametrize(
    ("rule", "subject", "names"),
    [
        ("broken_expectation", "Orders", {"Orders": "blocked"}),
        ("quarantine_rate", "Orders", {"Orders": "blocked"}),
        ("freshness", "Orders", {"Orders": "behind"}),
        ("lag", "Orders ← webhook:shop/orders", {"Orders": "behind"}),
        ("job_down", "Orders ← webhook:shop/orders", {"Orders": "failing"}),
        ("drift", "Buyer.country", {"Buyer.country": "blocked", "Buyer": "blocked"}),
        ("token_expiry", "Orders", {}),
    ],
)
def test_an_alert_shows_in_its_subject(
    shop: ShopStatus, rule: str, subject: str, names: dict[str, str]
) -> None:
    found = unhealthy(shop.of(alerts=[alert(rule, subject)]))

    assert {name: one for name, one in found.items() if ":" not in name} == names


def test_an_alert_of_a_featureset_shows_in_all_of_its_features(shop: ShopStatus) -> None:
    found = unhealthy(shop.of(alerts=[alert("broken_expectation", "Buyer")]))

    assert set(found.values()) == {"blocked"}
    assert "Buyer.rank" in found
    assert "Users" not in found


def test_the_worst_status_counts(shop: ShopStatus) -> None:
    found = shop.of(
        alerts=[alert("freshness", "Users"), alert("quarantine_rate", "Users")],
        Users_history_feed={"phase": "paused"},
    )

    assert found["dataset", "Users"].status is StatusKind.BLOCKED
    assert found["dataset", "Users"].reason == "quarantine_rate of Users."


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"phase": "caught_up"}, StatusKind.HEALTHY),
        ({"phase": "pending"}, StatusKind.BEHIND),
        ({"phase": "starting"}, StatusKind.BEHIND),
        ({"phase": "caught_up", "error": "a row"}, StatusKind.FAILING),
        ({"phase": "caught_up", "desired": "paused"}, StatusKind.PAUSED),
        ({"phase": "paused"}, StatusKind.PAUSED),
        ({"phase": "stopped", "desired": "stopped"}, StatusKind.HEALTHY),
        ({"phase": "failed", "desired": "paused"}, StatusKind.FAILING),
    ],
)
def test_a_job_has_a_status(shop: ShopStatus, changed: dict[str, Any], status: StatusKind) -> None:
    found = status_of_job(shop.jobs[0] | {"error": None, "desired": "running"} | changed)  # type: ignore[arg-type]

    assert found.status is status
    assert bool(found.reason) is (status is not StatusKind.HEALTHY)


def test_each_status_has_a_symbol_and_a_meaning_of_its_own() -> None:
    assert len({SYMBOLS[one] for one in StatusKind}) == len({MEANINGS[one] for one in StatusKind})
    assert len(ORDER) == len(set(SYMBOLS.values())) == len(StatusKind)
