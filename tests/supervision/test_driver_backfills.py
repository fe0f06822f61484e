# ruff: noqa: ANN001, ANN202, N805
"""A small backfill runs in a driver of live jobs; what happens to the driver loses nothing."""

import signal
from collections import Counter
from datetime import datetime
from uuid import UUID

import attrs
import pytest

from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.datasets import Count, Dataset, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.lib import inputs
from narthex_server.deploy.driver_backfills import is_in_driver
from tests.server.driving import accept, create_all, step
from tests.spark_processes import signal_session
from tests.supervision.plant import USERS, Installation, wait_for
from tests.supervision.shop import DATASETS, Orders

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark]

__owner__ = "shop@narthex.dev"

ORDERS = range(5000, 5040)


def sales(number: int) -> Definitions:
    """The shop, with one more total of the orders that are there already."""

    @dataset(index=True, version=number)
    class Sales:
        """The number of orders of a user."""

        user: str = field(key=True)
        orders: int
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Orders)
        def by_user(cls, orders):
            return orders.groupby("user").aggregate(orders=Count(window=Continuous("forever")))

    found: list[Dataset] = [*DATASETS, Sales]
    return definitions(found, [])


def commit(plant: Installation, number: int) -> str:
    """Commit it, up to where the backfill is due."""
    client = plant.house.client
    commit_id = accept(client, sales(number))
    create_all(client, commit_id)
    for name in ("ready", "commit"):
        step(client, commit_id, name)
    return commit_id


def due(plant: Installation, commit_id: str) -> list[str]:
    return list(step(plant.house.client, commit_id, "backfill")["jobs"])


def in_driver(plant: Installation, commit_id: str) -> bool:
    return bool(step(plant.house.client, commit_id, "backfill_in_driver")["in_driver"])


def order_all(plant: Installation) -> None:
    for number in ORDERS:
        plant.order(number)
    plant.wait_exact()


def wait_sales(plant: Installation) -> None:
    sent = Counter(user for user, _, _ in plant.sent)

    def found() -> dict[str, int]:
        answer = plant.house.client.post(
            "/api/v1/dataset/Sales/lookup", json={"keys": [{"user": user} for user in USERS]}
        )
        return dict(zip(USERS, answer.json()["data"]["orders"], strict=True))

    wait_for(lambda: found() == dict(sent), what=f"{sent}", so_far=found)


@pytest.mark.slow
def test_a_small_backfill_runs_in_the_driver(plant: Installation) -> None:
    one = plant.supervise("one")
    plant.wait_held("one")
    order_all(plant)
    commit_id = commit(plant, 1)
    owed = due(plant, commit_id)
    # One order is more than none.
    ledger, settings = plant.house.ledger, attrs.evolve(plant.settings, driver_backfill_rows=0)

    assert not is_in_driver(UUID(commit_id), ledger=ledger, settings=settings)
    assert in_driver(plant, commit_id)
    wait_for(lambda: not due(plant, commit_id), what="filled", so_far=lambda: one.log("driver"))
    step(plant.house.client, commit_id, "backfilled")
    plant.commit_id = commit_id
    plant.wait_served()

    assert owed == ["job/Sales/pipeline/by_user"]
    wait_sales(plant)
    assert f"commit_id={commit_id}" in one.log("driver")
    assert ledger.driver_backfills.is_in_driver(UUID(commit_id)) is None


@pytest.mark.slow
def test_a_backfill_whose_driver_was_killed_is_not_tried_in_a_driver_again(
    plant: Installation,
) -> None:
    one = plant.supervise("one")
    plant.wait_held("one")
    order_all(plant)
    commit_id = commit(plant, 2)
    # A stopped driver begins nothing, and its supervisor claims the backfill for it.
    signal_session(one.driver, signal.SIGSTOP)
    assert in_driver(plant, commit_id)
    wait_for(
        lambda: "backfill_claimed" in one.log("supervisor"),
        what="claimed",
        so_far=lambda: one.log("supervisor"),
    )
    signal_session(one.driver, signal.SIGKILL)
    wait_for(
        lambda: not in_driver(plant, commit_id), what="failed", so_far=lambda: one.log("supervisor")
    )

    assert due(plant, commit_id) == ["job/Sales/pipeline/by_user"]
