# ruff: noqa: ANN001, ANN201, N805
"""Rows of a dataset by key, from the index that the server has open."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from narthex._ir.assets import AssetKind, IndexSpec
from narthex._ir.facts import Fact, RowId, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Average, Count, LastK, Max, Stddev, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.lib import inputs
from narthex_stores import LmdbIndex, index_store
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import serve

pytestmark = pytest.mark.postgres

__owner__ = "tests@narthex.dev"

EVENT_TIME = 1_767_322_800_000_000


@source(Webhook(name="bank").endpoint("payments"), disorder="1d", cdc="append")
@dataset
class Payments:
    """A payment."""

    card: str
    amount: int
    at: datetime = field(timestamp=True)


@dataset(index=True)
class Cards:
    """How a card is used."""

    card: str = field(key=True)
    n: int
    mean: float
    spread: float
    most: int
    newest: list[int]
    at: datetime = field(timestamp=True)

    @pipeline
    @inputs(Payments)
    def by_card(cls, payments):
        window = Continuous("1h")
        return payments.groupby("card").aggregate(
            n=Count(window=window),
            mean=Average(of="amount", window=window, default=-3.5),
            spread=Stddev(of="amount", window=window),
            most=Max(of="amount", window=window, default=-9),
            newest=LastK(of="amount", window=window, limit=2, dedup=False),
        )


@pytest.fixture(scope="module")
def retained_assets(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[House]:
    settings = settings_at(tmp_path_factory.mktemp("bank"), dsn=module_ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters=adapters) as house:
        serve(house, definitions([Payments, Cards], []))
        _pay(house, settings.index_dir)
        yield house


def _pay(house: House, index_dir: Path) -> None:
    asset = house.services.snapshots.serving("main").bindings["dataset/Cards/index"]
    assert isinstance(asset.spec, IndexSpec)
    index = LmdbIndex(index_dir / asset.physical_name, asset.spec)
    paid = Fact(
        row_id=RowId(b"1"),
        version=Version(b"1"),
        event_time=EVENT_TIME,
        key=("a",),
        values=(7,),
    )
    index.apply([paid], offsets={}, epoch=1)
    index.close()


def look_up(house: House, **call: Any) -> Any:
    answer = house.client.post("/api/v1/dataset/Cards/lookup", json=call)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_key_never_seen_has_the_defaults_that_its_aggregates_declare(
    retained_assets: House,
) -> None:
    found = look_up(
        retained_assets, keys=[{"card": "a"}, {"card": "b"}], timestamps=[EVENT_TIME, EVENT_TIME]
    )

    assert found["found"] == [True, False]
    assert found["data"] == {
        "card": ["a", "b"],
        "n": [1, None],
        "mean": [7.0, -3.5],
        "spread": [0.0, -1.0],
        "most": [7, -9],
        "newest": [[7], None],
        "at": ["2026-01-02T03:00:00.000000Z", None],
    }


def test_a_window_that_has_emptied_is_found(retained_assets: House) -> None:
    later = EVENT_TIME + 3_600_000_001

    found = look_up(
        retained_assets, keys=[{"card": "a"}], timestamps=[later], fields=["n", "mean", "newest"]
    )

    assert found == {"found": [True], "data": {"n": [0], "mean": [-3.5], "newest": [[]]}}


def test_fields_that_are_not_there_are_refused_by_name(retained_assets: House) -> None:
    answer = retained_assets.client.post(
        "/api/v1/dataset/Cards/lookup", json={"keys": [{"card": "a"}], "fields": ["n", "m"]}
    )

    assert answer.status_code == 400
    assert answer.json()["err_msg"] == "`Cards` has no field `m`"


def test_a_missing_index_is_named_and_the_request_can_be_repeated(
    tmp_path: Path, ledger_dsn: str
) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters=adapters) as house:
        serve(house, definitions([Payments, Cards], []))
        asset = house.services.snapshots.serving("main").bindings["dataset/Cards/index"]
        path = settings.index_dir / asset.physical_name
        path.rename(tmp_path / "lost")
        answer = house.client.post("/api/v1/dataset/Cards/lookup", json={"keys": [{"card": "a"}]})
        (tmp_path / "lost").rename(path)

        assert answer.status_code == 503
        assert answer.json()["err_msg"].startswith("the index of `Cards` is missing")
        assert look_up(house, keys=[{"card": "a"}], fields=["n"])["found"] == [False]
