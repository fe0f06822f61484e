# ruff: noqa: ARG001, ARG005, E501
"""A pipeline's function is called once, with rows that write down what is done to them."""

from datetime import datetime
from typing import Any, List, Optional  # noqa: UP035 (authors write these)

import pytest

from narthex._analysis.graph import check
from narthex._analysis.schemas.pipelines import steps_of
from narthex._authoring.error_collection import collecting
from narthex._ir.aggregate_specs import Count as CountSpec
from narthex._ir.aggregate_specs import Sum as SumSpec
from narthex._ir.code import UserCode
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    DatasetRef,
    Drop,
    DropNull,
    Filter,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
    Select,
)
from narthex._ir.types import Float
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.datasets import (
    Average,
    Count,
    Dataset,
    LastK,
    Quantile,
    Sum,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous
from narthex.errors import (
    AggregateInvalid,
    CodeNotFound,
    ColumnNotFound,
    ColumnRoleWrong,
    DefinitionError,
    DefinitionErrors,
    DurationInvalid,
    ExpressionTypeWrong,
    JoinInvalid,
    OperatorAfterTerminal,
    OperatorInvalid,
    PipelineInvalid,
    SchemaDiffers,
)
from narthex.expr import col
from narthex.lib import inputs
from tests.cases import every

TWO = 2
Rows = Any


@dataset
class Orders:
    uid: int
    sku: str
    amount: float
    coupon: Optional[str]  # noqa: UP045
    at: datetime


@dataset(index=True)
class Users:
    uid: int = field(key=True)
    country: str
    joined: datetime


def _terminal(of: Dataset) -> Operator:
    (found,) = dataset_entity(of).pipelines
    return found.terminal


def _only(raised: pytest.ExceptionInfo[DefinitionErrors]) -> DefinitionError:
    (found,) = raised.value.exceptions_flat()
    return found


def test_steps_become_operators_in_order() -> None:
    @dataset(index=True)
    class Spend:
        uid: int = field(key=True)
        total: float
        n: int
        last: List[float]  # noqa: UP006
        at: datetime

        @pipeline
        @inputs(Orders, Users)
        def spend(cls, orders: Rows, users: Rows) -> Rows:  # noqa: N805
            return (
                orders.filter(col("amount") > 0)
                .filter(lambda df: df["amount"] < TWO)
                .dropnull()
                .join(users, how="inner", on=["uid"], within=("1d", "0s"))
                .assign(double=(col("amount") * 2).astype(float))
                .assign("half", float, lambda df: df["amount"] / TWO)
                .rename({"sku": "item"})
                .drop("country", "coupon")
                .select("uid", "amount", "half")
                .groupby("uid")
                .aggregate(
                    Sum(of="amount", window=Continuous("1d"), into_field="total"),
                    n=Count(window=Continuous("forever")),
                    last=LastK(of="half", limit=3, dedup=False, window=Continuous("1h")),
                )
            )

    ref, steps = steps_of(_terminal(Spend))

    assert ref.dataset == "Orders"
    assert [type(step) for step in steps] == [
        Filter,
        Filter,
        DropNull,
        Join,
        Assign,
        AssignCode,
        Rename,
        Drop,
        Select,
        Aggregate,
    ]
    _, code_filter, dropnull, join, *_, aggregate = steps
    assert isinstance(code_filter, Filter)
    assert isinstance(code_filter.predicate, UserCode)
    assert "TWO = 2" in code_filter.predicate.source
    assert isinstance(dropnull, DropNull)
    assert dropnull.columns == ("coupon",)
    assert isinstance(join, Join)
    assert (join.right.dataset, join.how, join.on) == ("Users", JoinHow.INNER, (("uid", "uid"),))
    assert (join.within_low_us, join.within_high_us) == (86_400_000_000, 0)
    assert join.fields == ("country",)
    assert isinstance(aggregate, Aggregate)
    assert aggregate.specs[:2] == (
        SumSpec(into="total", of="amount", window=Continuous("1d")),
        CountSpec(into="n", window=Continuous("forever")),
    )
    lines = [step.origin.line for step in steps]
    assert lines == sorted(lines)
    assert len(set(lines)) == len(lines)
    codes = {error.code for error in check(definitions([Orders, Users, Spend], []))}
    assert codes <= {"NX804"}


def test_a_pipeline_names_fields_of_its_own_dataset() -> None:
    @dataset
    class Spend:
        uid: int = field(key=True)
        total: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def spend(cls, orders: Rows) -> Rows:  # noqa: N805
            total = Sum(of="amount", window=Continuous("1d"), into_field=str(cls.total))
            return orders.groupby(str(cls.uid)).aggregate(total)

    _, (aggregate,) = steps_of(_terminal(Spend))

    assert isinstance(aggregate, Aggregate)
    assert (aggregate.by, aggregate.specs[0].into) == (("uid",), "total")


def test_latest_makes_rows_keyed() -> None:
    @dataset(index=True)
    class Last:
        uid: int = field(key=True)
        sku: str
        amount: float
        coupon: Optional[str]  # noqa: UP045
        at: datetime

        @pipeline
        @inputs(Orders)
        def last(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid").latest()

    terminal = _terminal(Last)
    assert isinstance(terminal, Latest)
    assert terminal.by == ("uid",)
    assert isinstance(terminal.input, DatasetRef)


def _pipeline_of(body: Any) -> Any:
    """Make a dataset keyed by uid, with one pipeline over Orders and Users."""

    @pipeline
    @inputs(Orders, Users)
    def p(cls, orders, users):  # noqa: ANN001, ANN202
        return body(orders, users)

    made = type(
        "Made",
        (),
        {
            "__annotations__": {"uid": int, "n": float, "at": datetime},
            "uid": field(key=True),
            "p": p,
        },
    )
    return dataset(made)


TOTAL = Sum(of="amount", window=Continuous("1d"), into_field="n")


@every(
    ("body", "error"),
    [
        (lambda o, u: o.filter(col("amuont") > 1).groupby("uid").aggregate(TOTAL), ExpressionTypeWrong),
        (lambda o, u: o.filter(col("amount")).groupby("uid").aggregate(TOTAL), ExpressionTypeWrong),
        (lambda o, u: o.filter(5).groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.assign(x=5).groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.assign(x=col("uid") + 1).groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.assign("x", int).groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.drop("x").groupby("uid").aggregate(TOTAL), ColumnNotFound),
        (lambda o, u: o.drop("sku", columns=["sku"]).groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.rename("x").groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.dropnull("sku").groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.explode("sku").groupby("uid").aggregate(TOTAL), OperatorInvalid),
        (lambda o, u: o.transform(len).groupby("uid").aggregate(TOTAL), CodeNotFound),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, emit="often"), AggregateInvalid),
        (lambda o, u: o.groupby("uid").aggregate(Sum(of="amount", window=Continuous("1d"))), AggregateInvalid),
        (lambda o, u: o.groupby("uid").aggregate(n=3), AggregateInvalid),
        (lambda o, u: o.groupby("uid").aggregate(n=Quantile(of="amount", p=0.5)), AggregateInvalid),
        (lambda o, u: o.groupby("uid").aggregate(n=Sum(of="amount", window=Continuous("1x"))), DurationInvalid),
        (lambda o, u: o.join(u, how="outer", on=["uid"]), JoinInvalid),
        (lambda o, u: o.join(u, how="left"), JoinInvalid),
        (lambda o, u: o.join(u, how="left", on=["uid"], within=("1d", "forever")), JoinInvalid),
        (lambda o, u: o.join(o.drop("sku"), how="left", on=["uid"]), JoinInvalid),
        (lambda o, u: o.join(u, how="left", left_on=["uid", "sku"], right_on=["uid"]), JoinInvalid),
        (lambda o, u: None, PipelineInvalid),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Continuous("1d"))), SchemaDiffers),
    ],
)  # fmt: skip
def test_an_invalid_step_is_reported_once(body: Any, error: type[DefinitionError]) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _pipeline_of(body)

    found = raised.value.exceptions_flat()
    assert type(found[0]) is error
    assert all(one.origin.line for one in found)
    if error is not PipelineInvalid and error is not JoinInvalid:
        assert len(found) == 1


def test_select_must_keep_keys() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class Bad:
            uid: int = field(key=True)
            country: str
            joined: datetime

            @pipeline
            @inputs(Users)
            def p(cls, users: Rows) -> Rows:  # noqa: N805
                return users.select("country")

    assert isinstance(_only(raised), ColumnRoleWrong)


def test_all_mistakes_of_a_pipeline_are_reported_together() -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _pipeline_of(
            lambda o, u: (
                o.drop("nothing")
                .filter(col("amount") + 1)
                .groupby("uid")
                .aggregate(n=Sum(of="sku", window=Continuous("1d")))
            )
        )

    assert [type(error) for error in raised.value.exceptions_flat()] == [
        ColumnNotFound,
        ExpressionTypeWrong,
        AggregateInvalid,
    ]


def test_an_exception_in_a_pipeline_is_reported_at_its_line() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class Bad:
            uid: int
            at: datetime

            @pipeline
            @inputs(Orders)
            def p(cls, orders: Rows) -> Rows:  # noqa: N805
                return orders.nothing()

    error = _only(raised)
    assert "AttributeError" in error.message
    assert error.origin.file.endswith("test_declare_pipelines.py")


def test_a_pipeline_without_inputs_or_cls_is_refused() -> None:
    with pytest.raises(DefinitionErrors, match="has no datasets to read"):

        @dataset
        class NoInputs:
            at: datetime

            @pipeline
            def p(cls) -> None:  # noqa: N805
                return None

    with pytest.raises(DefinitionErrors, match="expected `cls`"):

        @dataset
        class NoCls:
            at: datetime

            @pipeline
            @inputs(Orders)
            def p(orders) -> None:  # noqa: N805
                return None


def test_nothing_reads_a_dataset_that_ends_in_a_continuous_aggregate() -> None:
    @dataset
    class Total:
        uid: int = field(key=True)
        mean: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid").aggregate(
                mean=Average(of="amount", window=Continuous("1d"))
            )

    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class After:
            uid: int = field(key=True)
            mean: float
            at: datetime

            @pipeline
            @inputs(Total)
            def p(cls, total: Rows) -> Rows:  # noqa: N805
                return total

    assert isinstance(_only(raised), OperatorAfterTerminal)


def test_a_collector_reads_on_after_a_broken_definition() -> None:
    with collecting() as found:

        @dataset
        class Broken:
            uid: set
            at: datetime

        @dataset
        class Reads:
            uid: int
            at: datetime

            @pipeline
            @inputs(Broken)
            def p(cls, broken: Rows) -> Rows:  # noqa: N805
                return broken

        @dataset
        class AlsoBroken:
            uid: int

    assert [error.code for error in found] == ["NX103", "NX110"]


def test_a_step_has_a_type() -> None:
    seen: dict[str, object] = {}

    def body(o: Rows, u: Rows) -> Rows:
        rows = o.join(u, how="left", on=["uid"])
        seen.update(rows.schema())
        return rows.groupby("uid").aggregate(TOTAL)

    _pipeline_of(body)

    assert seen["amount"] == Float()
    assert "country" in seen
