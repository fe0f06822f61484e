# ruff: noqa: ANN001, ANN202, ARG002, N805
"""Diffs of features: which rows have other values, by how much, and which input is the first."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from narthex._base import Json, to_plain
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.expr import col
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import inputs, outputs
from narthex_expectations.comparisons.causes import SideDataset
from narthex_expectations.comparisons.feature_diffs import (
    FeatureQuestion,
    FeatureSide,
    diff_features,
)
from narthex_expectations.comparisons.value_diffs import ComparedDataset, NotComparableError
from tests.expectations.priced_shop import Orders, Priced, Rates
from tests.expectations.test_value_diffs import NOW, ORDERS, PRICED, RATES, Shop, causes, shop

__all__ = ["shop"]

CHEAPER = (*PRICED[:2], (("o3",), ("ann", "CHF", 12.0)))


def shop_of(*, factor: float = 2.0, default: float = 0.0, code: int = 1) -> Definitions:
    """Declare the features of orders: looked up, by an expression, by code, and an alias."""

    @featureset
    class Order:
        order: str
        euros: float = feature(Priced.euros, default=default)
        twice: float = feature(col("euros") * factor)
        label: int

        @extractor
        @inputs("euros")
        @outputs("label")
        def labelled(cls, ts, euros):
            return pd.Series([int(one) + code for one in euros], name="label")

    @featureset
    class Sale:
        euros: float = feature(Order.euros)
        hour: int | None
        late: int | None = feature(col("hour") + 1)

    return definitions([Orders, Rates, Priced], [Order, Sale])


def question(
    first: Mapping[str, SideDataset],
    second: Mapping[str, SideDataset],
    *,
    featureset: str = "Order",
    of: tuple[Definitions, Definitions] | None = None,
    rows: tuple[Mapping[str, Json], ...] | None = None,
    is_logged: bool = False,
) -> FeatureQuestion:
    one, other = of or (shop_of(), shop_of())
    return FeatureQuestion(
        featureset=featureset,
        sides=(
            FeatureSide(definitions=one, datasets=first),
            FeatureSide(definitions=other, datasets=second),
        ),
        now=NOW,
        rows=rows,
        is_logged=is_logged,
    )


@pytest.fixture
def same(shop: Shop) -> dict[str, SideDataset]:
    return shop.side({"Orders": ORDERS, "Rates": RATES, "Priced": PRICED})


def features(answer: ComparedDataset) -> dict[str, Any]:
    columns: Any = answer.result["columns"]
    return {one["column"]: one["differ"] for one in columns}


def test_features_of_rows_that_differ_are_followed_to_the_dataset(
    shop: Shop, same: dict[str, SideDataset]
) -> None:
    other = {**same, "Priced": shop.side({"Priced": CHEAPER})["Priced"]}

    answer = diff_features(question(same, other))

    keys: Any = answer.result["keys"]
    assert (keys["compared"], keys["same"], keys["differ"]) == (3, 2, 1)
    assert features(answer) == {"Order.euros": 1, "Order.label": 1, "Order.twice": 1}
    columns: Any = answer.result["columns"]
    assert {one["column"]: one["greatest_difference"] for one in columns} == {
        "Order.euros": 3.0,
        "Order.label": 3.0,
        "Order.twice": 6.0,
    }
    assert causes(answer) == [("Priced", "definition", 1, [])]
    assert {
        "key": {"Order.order": "o3"},
        "column": "Order.euros",
        "first": 15.0,
        "second": 12.0,
        "cause": "Priced",
    } in answer.examples


def test_a_source_that_differs_is_found_through_the_features(
    shop: Shop, same: dict[str, SideDataset]
) -> None:
    orders = (*ORDERS[:2], (("o3",), ("ann", "CHF", 24.0)))
    other = shop.side({"Orders": orders, "Priced": CHEAPER}, share={"Rates": same["Rates"]})

    assert causes(diff_features(question(same, other))) == [("Orders", "source", 1, [])]


@pytest.mark.parametrize(
    ("changed", "feature_name"),
    [({"factor": 3.0}, "Order.twice"), ({"code": 2}, "Order.label")],
)
def test_a_changed_extractor_is_the_first_to_differ(
    same: dict[str, SideDataset], changed: dict[str, Any], feature_name: str
) -> None:
    answer = diff_features(question(same, same, of=(shop_of(), shop_of(**changed))))

    assert {name for name, rows in features(answer).items() if rows} == {feature_name}
    assert causes(answer) == [(feature_name, "definition", 3, [])]


def test_a_changed_default_differs_for_keys_without_a_row(same: dict[str, SideDataset]) -> None:
    rows = ({"Order.order": "o1"}, {"Order.order": "nobody"}, {"Order.order": "nobody"})

    answer = diff_features(question(same, same, of=(shop_of(), shop_of(default=5.0)), rows=rows))

    keys: Any = answer.result["keys"]
    assert (keys["compared"], keys["same"]) == (2, 1)
    assert causes(answer) == [("Order.euros", "definition", 1, [])]


def test_an_alias_is_followed_to_the_keys_of_its_dataset(
    shop: Shop, same: dict[str, SideDataset]
) -> None:
    other = {**same, "Priced": shop.side({"Priced": CHEAPER})["Priced"]}

    answer = diff_features(question(same, other, featureset="Sale"))

    # A feature that callers give is null where no dataset has it as a key.
    assert features(answer) == {"Sale.euros": 1, "Sale.late": 0}
    assert causes(answer) == [("Priced", "definition", 1, [])]


def test_logged_rows_are_asked_if_they_have_all_given_features(
    same: dict[str, SideDataset],
) -> None:
    of = (shop_of(), shop_of(factor=3.0))
    logged = ({"Order.order": "o1"}, {"Other.feature": 1}, {"Order.order": 7})

    some = diff_features(question(same, same, of=of, rows=logged, is_logged=True))
    none = diff_features(question(same, same, of=of, rows=logged[1:], is_logged=True))

    counts: list[Any] = [one.result["keys"] for one in (some, none)]
    assert [one["compared"] for one in counts] == [1, 3]


@pytest.mark.parametrize(
    ("row", "said"),
    [({}, "row 0 lacks `Order.order`"), ({"Order.order": 7}, "row 0 has a wrong `Order.order`")],
)
def test_given_rows_have_all_given_features(
    same: dict[str, SideDataset], row: Mapping[str, Json], said: str
) -> None:
    with pytest.raises(NotComparableError, match=said):
        diff_features(question(same, same, rows=(row,)))


def test_code_that_fails_is_reported_without_values(same: dict[str, SideDataset]) -> None:
    def broken(word: str) -> Definitions:
        @featureset
        class Order:
            order: str
            label: int

            @extractor
            @inputs("order")
            @outputs("label")
            def labelled(cls, ts, order):
                raise ValueError(f"{word} {order[0]}")

        return definitions([Orders, Rates, Priced], [Order])

    rows = ({"Order.order": "o1"},)
    with pytest.raises(NotComparableError) as refused:
        diff_features(question(same, same, of=(broken("a"), broken("b")), rows=rows))

    assert "the code of an extractor that `Order` needs failed" in str(refused.value)
    assert "o1" not in str(refused.value)


def test_histories_without_rows_have_nothing_to_compare(shop: Shop) -> None:
    empty = shop.side({"Orders": (), "Rates": (), "Priced": ()})

    answer = diff_features(question(empty, empty))

    keys: Any = answer.result["keys"]
    assert keys["compared"] == 0


@pytest.mark.slow
def test_the_process_answers_questions_about_featuresets(
    same: dict[str, SideDataset],
) -> None:
    def side(factor: float) -> dict[str, Json]:
        return {
            "definitions": to_plain(shop_of(factor=factor)),
            "datasets": {
                name: {
                    "plan": to_plain(one.plan),
                    "history_path": one.history_path,
                    "asset_id": one.asset_id,
                    "reads": [*one.reads],
                }
                for name, one in same.items()
            },
        }

    asked = {"featureset": "Order", "dataset": "Order", "sides": [side(2.0), side(3.0)], "now": NOW}
    wrong = asked | {"rows": [{}]}

    done = subprocess.run(
        [sys.executable, "-m", "narthex_expectations.comparisons.diff_process"],
        input=json.dumps({"questions": [asked, wrong]}),
        capture_output=True,
        text=True,
        check=True,
    )

    answer, refused = map(json.loads, done.stdout.splitlines())
    assert (answer["dataset"], answer["result"]["keys"]["differ"]) == ("Order", 3)
    assert (refused["caller"], refused["error"]) == (True, "row 0 lacks `Order.order`")
