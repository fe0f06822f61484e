"""Datasets with or without expectations, served, with rows that have just arrived."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from narthex._base import Backoff
from narthex._ir.entities import Definitions
from narthex._ir.facts import Fact, RowId, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Dataset, dataset, field
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import (
    expect_column_values_to_be_between,
    expect_column_values_to_be_in_set,
    expectations,
)
from narthex_expectations.frames import open_history
from narthex_expectations.server_client import audited_dataset
from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from narthex_stores import LogRow
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import deploy, report_caught_up
from tests.server.listening import listening

__owner__ = "sales@narthex.dev"

webhook = Webhook(name="sales")

ARRIVED_WITHIN_S: Final = 30.0
SERVED_WITHIN_S: Final = 120.0


def sales(number: int, *, has_expectations: bool = True) -> Dataset:
    """Declare the dataset `Sales000` and so on: no amount may be negative, if anything is said."""

    @expectations
    def quality(cls: Any) -> Any:  # noqa: ARG001 - an author's function
        return [
            expect_column_values_to_be_between("amount", min_value=0, severity="critical"),
            expect_column_values_to_be_in_set("currency", ["EUR", "CHF"], mostly=0.9),
        ]

    of = source(webhook.endpoint(f"sales_{number:03}"), disorder="1d", cdc="upsert")
    made = type(
        f"Sales{number:03}",
        (),
        {
            "__doc__": f"Sales, number {number}.",
            "__annotations__": {"sale": str, "amount": float, "currency": str, "at": datetime},
            "__module__": __name__,
            "sale": field(key=True),
            "at": field(timestamp=True),
            **({"quality": quality} if has_expectations else {}),
        },
    )
    return of(dataset(index=True)(made))


def sale(read: Any) -> Featureset:
    """Declare the featureset `Sale`, of which no answer may have a negative amount."""

    @expectations
    def quality(cls: Any) -> Any:  # noqa: ARG001 - an author's function
        return [expect_column_values_to_be_between("amount", min_value=0, severity="critical")]

    made = type(
        "Sale",
        (),
        {
            "__doc__": "A sale.",
            "__annotations__": {"sale": str, "amount": float},
            "__module__": __name__,
            "amount": feature(read.amount, default=0.0),
            "quality": quality,
        },
    )
    return featureset(made)


@contextmanager
def served_sales(
    home: Path, *, dsn: str, kafka: str, number: int, has_expectations: bool = True
) -> Iterator[House]:
    """Serve so many datasets and one featureset over HTTP, with real stores; or nothing at all."""
    (port,) = free_ports(1)
    settings = attrs.evolve(
        settings_at(home, dsn=dsn, kafka=kafka),
        # Installations of several tests share a broker.
        install_id=f"aud{port:05}",
        server_url=f"http://127.0.0.1:{port}",
    )
    made: list[Any] = [sales(one, has_expectations=has_expectations) for one in range(number)]
    with house_at(settings) as house, listening(make_app(house.services), port):
        if made:
            _serve(house, definitions(made, [sale(made[0])]))
        yield house


def _serve(house: House, wanted: Definitions) -> None:
    """Drive a commit until readers have flipped; its quality gates may outlast a report of jobs."""
    commit_id = deploy(house.client, wanted)
    for _ in Backoff(first_s=0.5, greatest_s=0.5).attempts(within_s=SERVED_WITHIN_S):
        report_caught_up(house)
        answer = house.client.post(f"/api/v1/commits/{commit_id}/steps/promote")
        if answer.status_code == httpx.codes.OK:
            return
    raise AssertionError(f"readers have not flipped to commit {commit_id}")


def arrive(house: House, dataset: str, amounts: list[float]) -> None:
    """Let a sale of each amount arrive now, in the log and in the history of a dataset."""
    found = audited_dataset(house.services.settings, dataset, branch="main")
    now_us = time.time_ns() // 1000
    producer = house.services.producer
    sent = [producer.append(found.topic, value=b"{}") for _ in amounts]
    rows = []
    for number, (amount, future) in enumerate(zip(amounts, sent, strict=True)):
        at = future.result(ARRIVED_WITHIN_S)
        cells = {"amount": amount, "currency": "EUR"}
        fact = Fact(
            row_id=RowId(b"s%d" % number),
            version=Version(str(now_us).encode()),
            event_time=now_us,
            key=(f"s{number}",),
            values=tuple(cells[column.name] for column in found.plan.log.values),
        )
        rows.append(LogRow(at.partition, at.offset, fact))
    open_history(found.plan, found.history_path).append_rows(rows)
