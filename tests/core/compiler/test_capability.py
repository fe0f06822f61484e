"""The commit refuses all definitions that jobs cannot run yet, at once."""

from collections.abc import Callable

import attrs
import pytest

from narthex._base.origin import Origin
from narthex._compiler.capability import not_carried_out
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    Quantile,
    Sum,
)
from narthex._ir.code import UserCode
from narthex._ir.entities import Dataset, Definitions, Pipeline
from narthex._ir.expression_nodes import Ref
from narthex._ir.operators import (
    Aggregate,
    Assign,
    Assignment,
    Change,
    Changelog,
    DatasetRef,
    Dedup,
    Explode,
    Filter,
    First,
    Join,
    JoinHow,
    Latest,
    Operator,
    Transform,
    Union,
)
from narthex._ir.types import Str
from narthex._ir.windows import Continuous, Tumbling
from narthex.errors import NotYetSupported

Edited = Callable[[str, Callable[[Dataset], Dataset]], Definitions]

ORDERS = DatasetRef("Orders")
USERS = DatasetRef("Users")
HERE = Origin(file="f.py", line=7)
CODE = UserCode(entry="f", source="f = len", python="3.11")
DAY = Continuous("1d")
TOTAL = Sum(into="n", window=DAY, of="amount")


def _ending_in(terminal: Operator) -> Callable[[Dataset], Dataset]:
    pipeline = Pipeline(name="p", inputs=(), terminal=terminal)
    return lambda dataset: attrs.evolve(dataset, pipelines=(pipeline,))


def _join(left: Operator, right: DatasetRef = USERS) -> Join:
    return Join(left, right, JoinHow.LEFT, (("user", "user"),), None, 0, ("country",), origin=HERE)


def _total(spec: AggregateSpec = TOTAL, **changes: object) -> Aggregate:
    return attrs.evolve(Aggregate(ORDERS, ("user",), (spec,), origin=HERE), **changes)


def test_the_shop_is_supported(shop: Definitions) -> None:
    assert not_carried_out(shop) == ()


@pytest.mark.parametrize(
    "terminal",
    [
        Transform(ORDERS, (), CODE, origin=HERE),
        Dedup(ORDERS, ("user",), origin=HERE),
        Explode(ORDERS, ("user",), origin=HERE),
        Union(ORDERS, ORDERS, origin=HERE),
        Changelog(USERS, "gone", Change.DELETE, origin=HERE),
        First(ORDERS, ("user",), origin=HERE),
        Latest(DatasetRef("Enriched"), ("user",), origin=HERE),
        _join(USERS),
        _join(Assign(ORDERS, (Assignment("user", Str(), Ref("user")),))),
        _total(input=USERS),
        _total(along="at"),
        _total(window=Tumbling("1d")),
        Filter(_total(), Ref("n"), origin=HERE),
    ],
)
def test_steps_that_need_earlier_rows_are_supported(terminal: Operator, edited: Edited) -> None:
    assert not_carried_out(edited("Spend", _ending_in(terminal))) == ()


def test_a_decaying_sum_of_a_span_is_carried_out(edited: Edited) -> None:
    day = Tumbling("1d")
    spans = _total(ExpDecaySum(into="n", window=day, of="amount", half_life_us=1), window=day)

    assert not_carried_out(edited("Spend", _ending_in(spans))) == ()


@pytest.mark.parametrize(
    "spec",
    [
        FirstK(into="n", window=DAY, of="x", limit=1, dedup=False, dropnull=False),
        Distinct(into="n", window=DAY, of="x", unordered=True),
        ExpDecaySum(into="n", window=DAY, of="x", half_life_us=1),
        Quantile(into="n", window=DAY, of="x", p=0.5, approx=True),
        Quantile(into="n", window=DAY, of="x", p=0.5, approx=False),
        Count(into="n", window=Tumbling("1d", lookback="1d")),
    ],
)
def test_aggregates_that_indexes_fold_are_supported(spec: AggregateSpec, edited: Edited) -> None:
    assert not_carried_out(edited("Spend", _ending_in(_total(spec)))) == ()


def test_an_error_of_a_windows_length_is_refused(edited: Edited) -> None:
    wide = _total(Sum(into="n", window=Continuous("1d", max_error="1%"), of="amount"))

    (refused,) = not_carried_out(edited("Spend", _ending_in(wide)))

    assert refused.message.endswith(
        "`max_error` of `n` has no effect: windows are exact at both ends"
    )
    assert refused.hint == "leave `max_error` out"


def test_a_dataset_that_ends_in_an_aggregate_can_be_read(edited: Edited) -> None:
    daily = _total(Count(into="n", window=Tumbling("1d")))
    read = attrs.evolve(DatasetRef("Enriched"), origin=HERE)

    def found(terminal: Operator) -> tuple[NotYetSupported, ...]:
        definitions = edited("Enriched", _ending_in(daily))
        changed = tuple(
            _ending_in(terminal)(one) if one.name == "Spend" else one
            for one in definitions.datasets
        )
        return not_carried_out(attrs.evolve(definitions, datasets=changed))

    assert found(Filter(read, Ref("n"))) == ()
    assert found(_join(ORDERS, DatasetRef("Enriched"))) == ()
