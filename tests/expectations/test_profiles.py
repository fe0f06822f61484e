"""Expectations are proposed from rows, and Great Expectations finds that the history meets them."""

import ast
import json
from typing import Any

import attrs
import pandas as pd
import pytest

from narthex._base.times import HOUR_US
from narthex._ir import types
from narthex._ir.assets import DatasetPlan
from narthex._ir.schema import Field, Role, Schema
from narthex.lib import expectations
from narthex_expectations.audits import audit
from narthex_expectations.frames import open_history
from narthex_expectations.gates import check_history
from narthex_expectations.profile_runs import profile
from narthex_expectations.profiles import propose, source_of
from narthex_expectations.sampled_rows import sampled_rows
from narthex_stores import LogRow
from tests.expectations.priced_shop import plans
from tests.expectations.test_audits import plan_of, promise
from tests.expectations.test_value_diffs import AT, NOW, Shop, facts, shop

__all__ = ["shop"]

COUNT = 400
PLANS = plans()


def columns(**of: types.DataType) -> DatasetPlan:
    fields = (Field(name=name, type=one) for name, one in of.items())
    at = Field(name="at", type=types.Datetime(), role=Role.TIMESTAMP)
    return attrs.evolve(plan_of(), schema=Schema((*fields, at)))


def proposed(of: types.DataType, values: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return what is proposed for one column."""
    found = propose(columns(c=of), pd.DataFrame({"c": pd.Series(values, dtype=object)}))
    return [
        (
            one.expectation.kind.removeprefix("expect_column_"),
            {name: value for name, value in one.expectation.arguments if name != "column"}
            | ({} if one.expectation.mostly is None else {"mostly": one.expectation.mostly}),
        )
        for one in found
    ]


@pytest.mark.parametrize(
    ("of", "values", "expected"),
    [
        (
            types.Float(),
            [n / 10 for n in range(COUNT)],
            [("values_to_be_between", {"min_value": 0.0, "max_value": 60.0})],
        ),
        (
            types.Int(),
            [*range(-200, 200)],
            [("values_to_be_between", {"min_value": -400, "max_value": 400})],
        ),
        (
            types.Float(),
            [1.0] * 999 + [50.0],
            [("values_to_be_between", {"min_value": 0.5, "max_value": 1.5, "mostly": 0.994})],
        ),
        (
            types.Str(),
            ["EUR", "CHF"] * 50,
            [("values_to_be_in_set", {"value_set": ("CHF", "EUR")})],
        ),
        (
            types.Str(),
            [f"user{n}@example.com" for n in range(COUNT)],
            [("values_to_match_regex", {"regex": r"^[^@\s]+@[^@\s]+\.[^@\s]+$"})],
        ),
        (
            types.Str(),
            [f"n{n}" for n in range(COUNT)],
            [("value_lengths_to_be_between", {"min_value": 1, "max_value": 8})],
        ),
        (types.Optional(types.Bool()), [True] * 100, [("values_to_not_be_null", {})]),
        (
            types.Optional(types.Bool()),
            [True] * 97 + [None] * 3,
            [("values_to_not_be_null", {"mostly": 0.965})],
        ),
        (types.Optional(types.Bool()), [True, None] * 50, []),
        (types.Float(), [1.0, 2.0], []),
        (types.Datetime(), [pd.Timestamp(0, tz="UTC")] * 50, []),
    ],
)
def test_a_column_gets_what_is_simple_and_true_of_it(
    of: types.DataType, values: list[Any], expected: list[tuple[str, dict[str, Any]]]
) -> None:
    assert proposed(of, values) == expected


def test_the_source_is_the_authors_api() -> None:
    plan = columns(euros=types.Float(), currency=types.Str())
    rows = pd.DataFrame({"euros": [1.0 * n for n in range(100)], "currency": ["EUR", "CHF"] * 50})
    found = propose(plan, rows)

    source = source_of(found)

    imports, _, method = source.partition("\n\n\n")
    written = ast.unparse(ast.parse(f"{imports}\nclass Orders:\n{method}"))
    assert "expect_column_values_to_be_between('euros', min_value=0.0, max_value=150.0)" in written
    names: dict[str, Any] = {}
    exec(f"{imports}\nclass Orders:\n{method}", names)  # noqa: S102 (what an author pastes)
    call = names["Orders"].expected
    assert isinstance(call, type(expectations(lambda _cls: [])))
    listed = [one.expectation for one in call.function(None)]
    assert [(one.kind, one.mostly) for one in listed] == [
        (one.expectation.kind, one.expectation.mostly) for one in found
    ]


def many_orders() -> list[LogRow]:
    rows = [
        ((f"o{n}",), (f"user{n % 7}", ("EUR", "CHF")[n % 2], float(n % 90) if n else 1e9))
        for n in range(COUNT)
    ]
    return facts(rows)


def test_a_proposal_is_checked_on_the_whole_history(shop: Shop) -> None:
    orders = shop.history("Orders", many_orders())

    found = profile(orders.plan, orders.history_path, now_us=NOW)

    kinds = {dict(one.expectation.arguments)["column"]: one for one in found.proposals}
    assert set(kinds) == {"order", "user", "currency", "amount"}
    assert kinds["amount"].expectation.mostly == 0.992
    assert found.result.success
    assert (found.result.rows, len(found.sample.rows)) == (COUNT, COUNT)
    plain = found.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert "# 400 values are 2 different ones" in str(plain["source"])


def clicks(number: int) -> list[LogRow]:
    return facts([((f"u{n % 30}",), ()) for n in range(number)])


def test_aggregates_are_profiled_and_audited_by_the_values_of_keys(shop: Shop) -> None:
    activity = shop.history("Activity", clicks(300))
    least = promise("expect_column_values_to_be_between", column="clicks", min_value=1)
    plan = attrs.evolve(activity.plan, expectations=(least,))

    found = profile(activity.plan, activity.history_path, now_us=NOW)
    early = audit(plan, activity.history_path, from_us=AT, to_us=AT + 2 * HOUR_US)
    late = audit(plan, activity.history_path, from_us=AT, to_us=AT + 310 * HOUR_US)
    gate = check_history(plan, activity.history_path, now_us=AT + 299 * HOUR_US)

    # A day has up to 25 of the hourly clicks, of as many users; the others had some before.
    assert (early.rows, early.success, early.share) == (2, True, 1.0)
    assert (late.rows, late.success) == (30, False)
    assert late.findings[0].counts["unexpected_count"] == 16
    assert late.findings[0].examples[0] in [{"user": f"u{n}"} for n in range(30)]
    assert (gate.rows, gate.findings[0].counts["unexpected_count"]) == (30, 5)
    assert early.to_json()["as_of"] == "2023-11-15T00:13:19.999999Z"
    assert found.result.success
    assert found.sample.as_of == AT + 299 * HOUR_US
    assert [one.expectation.kind for one in found.proposals][-1].endswith(("set", "between"))


def test_a_row_of_the_future_does_not_decide_when_aggregates_are_checked(
    shop: Shop,
) -> None:
    rows = clicks(40)
    future = attrs.evolve(rows[-1], fact=attrs.evolve(rows[-1].fact, event_time=NOW + HOUR_US))
    activity = shop.history("Activity", [*rows[:-1], future])

    table = open_history(activity.plan, activity.history_path)
    sample = sampled_rows(activity.plan, table, as_of=None, now_us=AT + 38 * HOUR_US)

    assert sample.as_of == AT + 38 * HOUR_US
    assert int(sample.rows["clicks"].sum()) == 25


def test_a_history_without_rows_gets_no_proposal(shop: Shop) -> None:
    orders = shop.history("Orders", [])

    found = profile(orders.plan, orders.history_path, now_us=NOW)

    assert (found.proposals, found.to_json()["source"]) == ((), "")
