# ruff: noqa: ANN001, ANN201, N805
"""Rows of a dataset by key, from the index that the server has open."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import AssetKind, IndexSpec
from narthex._ir.facts import Fact, RowId, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Webhook, source
from narthex.datasets import Average, Count, LastK, Max, Stddev, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.errors import HistoryExpired
from narthex.lib import inputs
from narthex_stores import LmdbIndex, index_store
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.driving import serve

pytestmark = pytest.mark.postgres

__owner__ = "tests@narthex.dev"

EVENT_TIME = 1_767_322_800_000_000
HOUR_US = 3_600_000_000


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


@source(Webhook(name="bank").endpoint("pages"), disorder="30m", cdc="upsert")
@dataset(index=True, history="1h")
class Pages:
    """The last page that a card's owner saw."""

    card: str = field(key=True)
    page: str
    at: datetime = field(timestamp=True)


@pytest.fixture(scope="module")
def retained_assets(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[House]:
    settings = settings_at(tmp_path_factory.mktemp("bank"), dsn=module_ledger_dsn, kafka=NOBODY)
    adapters = in_memory() | {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters=adapters) as house:
        serve(house, definitions([Payments, Cards, Pages], []))
        _pay(house, settings.index_dir)
        _show(house, settings.index_dir)
        yield house


def _opened(house: House, index_dir: Path, dataset: str) -> LmdbIndex:
    asset = house.services.snapshots.serving("main").bindings[f"dataset/{dataset}/index"]
    assert isinstance(asset.spec, IndexSpec)
    return LmdbIndex(index_dir / asset.physical_name, asset.spec)


def _show(house: House, index_dir: Path) -> None:
    index = _opened(house, index_dir, "Pages")
    shown = [
        Fact(
            row_id=keyed_row_id(key_bytes(index.spec.log.keys, (card,)), at),
            version=Version(b"1"),
            event_time=at,
            key=(card,),
            values=("home",),
        )
        for card, at in (("a", EVENT_TIME), ("b", EVENT_TIME + 2 * HOUR_US))
    ]
    index.apply(shown, offsets={}, epoch=1)
    index.expire(now_us=EVENT_TIME, most=1000, epoch=1)
    index.close()


def _pay(house: House, index_dir: Path) -> None:
    index = _opened(house, index_dir, "Cards")
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


def test_a_row_that_is_older_than_the_history_is_not_found(retained_assets: House) -> None:
    call = {
        "keys": [{"card": "a"}, {"card": "a"}],
        "timestamps": [EVENT_TIME + HOUR_US, EVENT_TIME + HOUR_US + 1],
    }

    answer = retained_assets.client.post("/api/v1/dataset/Pages/lookup", json=call)

    assert answer.json()["found"] == [True, False]


def test_rows_of_the_history_before_the_watermark_are_found_long_after(
    retained_assets: House,
) -> None:
    call = {
        "keys": [{"card": "a"}, {"card": "b"}],
        "timestamps": [EVENT_TIME + 100_000 * HOUR_US] * 2,
    }

    answer = retained_assets.client.post("/api/v1/dataset/Pages/lookup", json=call)

    assert answer.json()["found"] == [False, True]


def test_a_lookup_before_what_the_index_has_is_refused(retained_assets: House) -> None:
    call = {"keys": [{"card": "a"}], "timestamps": [EVENT_TIME - HOUR_US - 1]}

    answer = retained_assets.client.post("/api/v1/dataset/Pages/lookup", json=call)

    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["code"] == HistoryExpired.code
    assert error["message"] == (
        "dataset `Pages`: a lookup as of 2026-01-02T01:59:59.999999Z needs rows that the index no "
        "longer has; it answers lookups as of 2026-01-02T02:00:00.000000Z and later"
    )
