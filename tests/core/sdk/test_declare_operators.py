# ruff: noqa: ARG001, ARG005, E501
"""Operators, windows and aggregates: the forms in which they are called, and what they refuse."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any, List, Optional  # noqa: UP035 (authors write these)

import attrs
import pytest

from narthex._analysis.changes import compare
from narthex._analysis.graph import check, reads
from narthex._analysis.schemas.pipelines import all_steps, steps_of
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.aggregate_specs import Distinct as DistinctSpec
from narthex._ir.aggregate_specs import ExpDecaySum as ExpDecaySumSpec
from narthex._ir.aggregate_specs import FirstK as FirstKSpec
from narthex._ir.aggregate_specs import Quantile as QuantileSpec
from narthex._ir.entities import Definitions
from narthex._ir.operators import (
    Aggregate,
    Change,
    Changelog,
    Dedup,
    Emit,
    First,
    Operator,
    Union,
)
from narthex._ir.types import WINDOW, Bool, DataType, Datetime, Float, Int, Str
from narthex._ir.types import List as ListType
from narthex._ir.types import Optional as OptionalType
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.datasets import (
    Average,
    Count,
    Dataset,
    Distinct,
    ExpDecaySum,
    FirstK,
    Max,
    Min,
    Quantile,
    Sum,
    dataset,
    field,
    pipeline,
)
from narthex.dtypes import Continuous, Hopping, Session, Tumbling, Window
from narthex.dtypes import Decimal as DecimalOf
from narthex.errors import DefinitionError, DefinitionErrors, OperatorAfterTerminal
from narthex.expr import col
from narthex.lib import inputs, meta
from tests.cases import every

Rows = Any


@meta(owner="a@b.co")
@dataset
class Orders:
    uid: int
    amount: float
    skus: List[str]  # noqa: UP006
    prices: List[float]  # noqa: UP006
    coupon: Optional[str]  # noqa: UP045
    shipped: datetime
    due: date
    price: DecimalOf[2]
    at: datetime = field(timestamp=True)


@meta(owner="a@b.co")
@dataset(index=True)
class Users:
    uid: int = field(key=True)
    country: str
    seen: datetime
    at: datetime = field(timestamp=True)


def _terminal(of: Dataset) -> Operator:
    (found,) = dataset_entity(of).pipelines
    return found.terminal


def _pipeline_of(body: Any, **annotations: object) -> Any:
    """Make a dataset with these fields, by one pipeline over Orders and Users."""

    @pipeline
    @inputs(Orders, Users)
    def p(cls, orders, users):  # noqa: ANN001, ANN202
        return body(orders, users)

    names = annotations or {"uid": int, "n": float}
    made = type("Made", (), {"__annotations__": {**names, "at": datetime}, "p": p})
    made.at = field(timestamp=True)  # type: ignore[attr-defined]
    return meta(owner="a@b.co")(dataset(made))


def _schema(body: Any) -> dict[str, DataType]:
    seen: dict[str, DataType] = {}

    def probe(orders: Rows, users: Rows) -> Rows:
        seen.update(body(orders, users).schema())
        raise _SeenError

    with pytest.raises(DefinitionErrors) as raised:
        _pipeline_of(probe)
    assert [one.message for one in raised.value.exceptions_flat()] == [
        "pipeline `p` raised: _SeenError: "
    ]
    return seen


class _SeenError(Exception):
    """Ends a pipeline whose schema has been seen."""


def _errors(body: Any) -> list[DefinitionError]:
    """Return what is wrong with a step, without what its dataset does not declare."""
    with pytest.raises(DefinitionErrors) as raised:
        _pipeline_of(body)
    found = raised.value.exceptions_flat()
    assert all(one.origin.file.endswith("test_declare_operators.py") for one in found)
    return [one for one in found if one.code != "NX207"]


def shout(frame: Any) -> Any:
    return frame.assign(coupon=frame["coupon"].str.upper())


def test_transform_keeps_or_declares_its_columns() -> None:
    same = _schema(lambda o, u: o.transform(shout))
    other = _schema(
        lambda o, u: u.transform(
            shout,
            schema={"uid": int, "n": Optional[int], "at": datetime},  # noqa: UP045
        )
    )
    more = _schema(lambda o, u: o.transform(shout, schema={**o.schema(), "x": int}))

    assert same == _schema(lambda o, u: o)
    assert other == {"uid": Int(), "n": OptionalType(Int()), "at": Datetime()}
    assert more == {**same, "x": Int()}


def test_dedup_is_by_all_values_unless_columns_are_named() -> None:
    @meta(owner="a@b.co")
    @dataset
    class Once:
        uid: int
        n: int
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            plain = orders.select("uid").assign(n=(col("uid") + 1).astype(int))
            return (
                plain.dedup()
                .dedup("uid", "n")
                .dedup(["uid"])
                .dedup(by="uid")
                .dedup(by=["uid"], window=Tumbling("1h"))
                .dedup("uid", window=Session("10m"))
            )

    _, steps = steps_of(_terminal(Once))
    dedups = [step for step in steps if isinstance(step, Dedup)]

    assert [step.by for step in dedups] == [
        ("uid", "n"),
        ("uid", "n"),
        ("uid",),
        ("uid",),
        ("uid",),
        ("uid",),
    ]
    assert [step.window for step in dedups[3:]] == [None, Tumbling("1h"), Session("10m")]


def test_explode_gives_the_elements_or_null() -> None:
    exploded = _schema(lambda o, u: o.explode("skus", "prices"))
    listed = _schema(lambda o, u: o.explode(columns=["skus"]))

    assert exploded["skus"] == OptionalType(Str())
    assert exploded["prices"] == OptionalType(Float())
    assert listed["prices"] == ListType(Float())


def test_changelog_makes_keys_values() -> None:
    @meta(owner="a@b.co")
    @dataset
    class Changes:
        uid: int
        country: str
        seen: datetime
        gone: bool
        at: datetime = field(timestamp=True)

        @pipeline
        @inputs(Users)
        def p(cls, users: Rows) -> Rows:  # noqa: N805
            return users.changelog(delete="gone")

    terminal = _terminal(Changes)
    assert isinstance(terminal, Changelog)
    assert (terminal.column, terminal.change) == ("gone", Change.DELETE)
    assert _schema(lambda o, u: u.changelog(insert="new"))["new"] == Bool()


def test_a_union_has_two_sides_and_reads_both() -> None:
    @meta(owner="a@b.co")
    @dataset
    class Both:
        uid: int
        at: datetime

        @pipeline
        @inputs(Orders, Users)
        def p(cls, orders: Rows, users: Rows) -> Rows:  # noqa: N805
            changes = users.changelog("new").select("uid")
            return orders.select("uid") + changes

    terminal = _terminal(Both)
    assert isinstance(terminal, Union)
    assert [type(step).__name__ for step in all_steps(terminal)] == [
        "DatasetRef",
        "Select",
        "DatasetRef",
        "Changelog",
        "Select",
        "Union",
    ]
    assert reads(dataset_entity(Both)) == ("Orders", "Users")
    assert check(definitions([Orders, Users, Both], [])) == ()


def test_first_gives_whole_rows_by_group() -> None:
    @dataset(index=True)
    class Opening:
        uid: int = field(key=True)
        coupon: Optional[str]  # noqa: UP045
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.select("uid", "coupon").groupby("uid").first()

    terminal = _terminal(Opening)
    assert isinstance(terminal, First)
    assert terminal.by == ("uid",)


def test_a_window_of_a_group_is_a_key_and_the_window_of_its_aggregates() -> None:
    @meta(owner="a@b.co")
    @dataset(index=True)
    class Sessions:
        uid: int = field(key=True)
        window: Window = field(key=True)
        n: int
        total: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid", window=Session("30m")).aggregate(
                Count(into_field="n"), total=Sum(of="amount", window=Session("30m"))
            )

    terminal = _terminal(Sessions)
    assert isinstance(terminal, Aggregate)
    assert terminal.window == Session("30m")
    assert {spec.window for spec in terminal.specs} == {Session("30m")}
    assert check(definitions([Orders, Sessions], [])) == ()
    windows = _schema(lambda o, u: o.groupby("uid", window=Hopping("1d", "1h")).aggregate())
    assert windows == {"uid": Int(), "window": WINDOW, "at": Datetime()}


@pytest.mark.parametrize(
    ("window", "specs", "given", "emit"),
    [
        (Tumbling("1d"), {"n": Count()}, {}, Emit.FINAL),
        (Hopping("1d", "1h"), {"n": Count()}, {}, Emit.FINAL),
        (Tumbling("1d"), {}, {}, Emit.FINAL),
        (Tumbling("1d"), {"n": Count()}, {"emit": "eager"}, Emit.EAGER),
        (Tumbling("1d"), {"n": ExpDecaySum(of="amount", half_life="1h")}, {}, Emit.EAGER),
        (Session("1h"), {"n": Count()}, {}, Emit.EAGER),
        (Session("1h"), {"n": Count()}, {"emit": "final"}, Emit.FINAL),
        (None, {"n": Count(window=Tumbling("1d"))}, {}, Emit.EAGER),
    ],
)
def test_spans_of_discrete_windows_are_final_by_default(
    window: Any, specs: dict[str, Any], given: dict[str, str], emit: Emit
) -> None:
    found: list[Operator] = []

    def body(orders: Rows, _: Rows) -> Rows:
        grouped = orders.groupby("uid", window=window) if window else orders.groupby("uid")
        last = grouped.aggregate(**specs, **given)
        found.append(last.operator)
        return last

    keys = {"window": field(key=True)} if window else {}
    columns = {"n": float if "ExpDecay" in str(specs) else int} if specs else {}
    _grouped(body, keys, columns)

    (aggregate,) = found
    assert isinstance(aggregate, Aggregate)
    assert aggregate.emit is emit


def _grouped(body: Any, keys: dict[str, Any], columns: dict[str, type]) -> None:
    @pipeline
    @inputs(Orders, Users)
    def p(cls, orders, users):  # noqa: ANN001, ANN202
        return body(orders, users)

    annotations = {"uid": int, **dict.fromkeys(keys, Window), **columns, "at": datetime}
    made = type("Made", (), {"__annotations__": annotations, "p": p, **keys})
    made.uid = field(key=True)  # type: ignore[attr-defined]
    made.at = field(timestamp=True)  # type: ignore[attr-defined]
    meta(owner="a@b.co")(dataset(made))


def test_aggregates_take_a_time_axis_and_wait_for_their_windows() -> None:
    @dataset
    class Totals:
        uid: int = field(key=True)
        n: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid").aggregate(
                [Sum(of="amount", window=Continuous("1d"), into_field="n")], along="shipped"
            )

    @dataset
    class Closed:
        uid: int = field(key=True)
        n: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid").aggregate(
                n=Sum(of="amount", window=Tumbling("1d", lookback="1d")), emit="final"
            )

    along, closed = _terminal(Totals), _terminal(Closed)
    assert isinstance(along, Aggregate)
    assert isinstance(closed, Aggregate)
    assert (along.along, along.emit) == ("shipped", Emit.EAGER)
    assert (closed.along, closed.emit) == (None, Emit.FINAL)


def test_the_other_aggregates_become_specs() -> None:
    found: list[AggregateSpec] = []

    def body(o: Rows, u: Rows) -> Rows:
        rows = o.groupby("uid").aggregate(
            first=FirstK(of="coupon", limit=2, dedup=True, dropnull=True, window=Continuous("1d")),
            every=Distinct(of="coupon", unordered=True, window=Continuous("1d")),
            median=Quantile(of="amount", p=0.5, window=Continuous("1d")),
            filled=Quantile(of="amount", p=1, default=0.0, approx=True, window=Continuous("1d")),
            heat=ExpDecaySum(of="amount", half_life="1h 30m", window=Continuous("forever")),
        )
        assert isinstance(rows.operator, Aggregate)
        found.extend(rows.operator.specs)
        return rows

    types = _schema(body)

    day = Continuous("1d")
    assert found == [
        FirstKSpec(into="first", window=day, of="coupon", limit=2, dedup=True, dropnull=True),
        DistinctSpec(into="every", window=day, of="coupon", unordered=True),
        QuantileSpec(into="median", window=day, of="amount", p=0.5),
        QuantileSpec(into="filled", window=day, of="amount", p=1, default=0.0, approx=True),
        ExpDecaySumSpec(
            into="heat", window=Continuous("forever"), of="amount", half_life_us=5_400_000_000
        ),
    ]
    assert types["first"] == ListType(Str())
    assert types["every"] == ListType(OptionalType(Str()))
    assert types["median"] == OptionalType(Float())
    assert types["filled"] == Float()
    assert types["heat"] == Float()


def test_a_default_of_an_extreme_is_of_the_type_of_its_column() -> None:
    found: dict[str, object] = {}

    def body(o: Rows, u: Rows) -> Rows:
        rows = o.groupby("uid").aggregate(
            a=Min(of="due", default=date(1970, 1, 3), window=DAY),
            b=Max(of="shipped", default=datetime(1970, 1, 1, 0, 0, 1), window=DAY),  # noqa: DTZ001
            c=Min(of="price", default=Decimal("0.5"), window=DAY),
            d=Max(of="price", default=0.07, window=DAY),
            e=Max(of="price", default=3, window=DAY),
            f=Max(of="amount", default=3, window=DAY),
        )
        found.update({spec.into: spec.default for spec in rows.operator.specs})
        return rows

    types = _schema(body)

    assert found == {"a": 2, "b": 1_000_000, "c": 50, "d": 7, "e": 300, "f": 3}
    assert types["b"] == Datetime()


DAY = Continuous("1d")
HOUR = Tumbling("1h")
TOTAL = Sum(of="amount", window=DAY, into_field="n")


@every(
    ("body", "code", "said"),
    [
        # transform
        (lambda o, u: o.transform(3), "NX701", "transform"),
        (lambda o, u: o.transform(shout, schema=[int]), "NX205", "a dict from columns to types"),
        (lambda o, u: o.transform(shout, schema={"uid": int}), "NX204", "leaves out the event time `at`"),
        (lambda o, u: u.transform(shout, schema={"at": datetime}), "NX204", "leaves out the key `uid`"),
        (lambda o, u: u.transform(shout, schema={"uid": str, "at": datetime}), "NX204", "gives the key `uid` as `str`; it is `int`"),
        (lambda o, u: o.transform(shout, schema={"uid": set, "at": datetime}), "NX103", "column `uid`"),
        # dedup
        (lambda o, u: u.dedup(), "NX205", "`dedup` is of keyless rows; these have the key `uid`"),
        (lambda o, u: o.dedup("uidd"), "NX202", "`uidd`"),
        (lambda o, u: o.dedup("at"), "NX204", "is the event time"),
        (lambda o, u: o.dedup("uid", window=Hopping("1d", "1h")), "NX302", "expected `Tumbling` or `Session`"),
        (lambda o, u: o.dedup("uid", window=DAY), "NX302", "expected `Tumbling` or `Session`"),
        (lambda o, u: o.dedup("uid", window=Tumbling("1d", lookback="1h")), "NX302", "has a lookback"),
        (lambda o, u: o.dedup("uid", window=Session("0s")), "NX302", "has an empty gap"),
        (lambda o, u: o.dedup("uid", by=["uid"]), "NX205", "both by position"),
        # explode
        (lambda o, u: o.explode("coupon"), "NX205", "has type `Optional[str]`; `explode` takes lists"),
        (lambda o, u: o.explode("skuss"), "NX202", "`skuss`"),
        (lambda o, u: o.explode(), "NX205", "has no columns"),
        # union
        (lambda o, u: u + u, "NX205", "a union is of keyless rows"),
        (lambda o, u: o + u, "NX205", "a union is of keyless rows"),
        (lambda o, u: o + o.drop("skus"), "NX205", "column `skus` is only in the left side"),
        (lambda o, u: o.drop("skus") + o, "NX205", "column `skus` is only in the right side"),
        (lambda o, u: o + o.dropnull("coupon"), "NX205", "column `coupon` has type `Optional[str]` in the left side"),
        (lambda o, u: o + o.rename({"at": "t", "shipped": "at"}).rename({"t": "shipped"}), "NX205", "the event time is `at` in the left side of the union and `shipped` in the right"),
        (lambda o, u: o + 3, "NX205", "expected rows on both sides"),
        # changelog
        (lambda o, u: o.changelog(delete="gone"), "NX205", "`changelog` needs a keyed dataset"),
        (lambda o, u: u.changelog(), "NX205", "the name of one column"),
        (lambda o, u: u.changelog(insert="a", delete="b"), "NX205", "the name of one column"),
        (lambda o, u: u.changelog(delete="country"), "NX203", "`country` of `changelog`"),
        # first, latest
        (lambda o, u: u.groupby("country").first(), "NX205", "`first` is of keyless rows"),
        (lambda o, u: u.groupby("country").latest(), "NX205", "`latest` is of keyless rows"),
        (lambda o, u: o.groupby().first(), "NX205", "has no columns"),
        (lambda o, u: o.groupby("uid", window=HOUR).first(), "NX205", "`first` follows a `groupby` with a window"),
        (lambda o, u: o.groupby("uid", window=HOUR).latest(), "NX205", "`latest` follows"),
        # groupby with a window
        (lambda o, u: o.groupby("uid", window=DAY).aggregate(), "NX302", "expected `Tumbling`, `Hopping` or `Session`"),
        (lambda o, u: o.groupby("uid", window=DAY).aggregate(n=Count(window=DAY), m=Count()), "NX302", "expected `Tumbling`, `Hopping` or `Session`"),
        (lambda o, u: o.groupby("uid", window=Hopping("forever", "1h")).aggregate(), "NX302", "has no beginning"),
        (lambda o, u: o.groupby("uid", window=Hopping("1h", "2h")).aggregate(), "NX302", "has a stride longer than its duration"),
        (lambda o, u: o.groupby(window=HOUR).aggregate(), "NX205", "has no columns"),
        (lambda o, u: u.groupby("country", window=HOUR).aggregate(), "NX205", "`groupby` with a window is of keyless rows"),
        (lambda o, u: o.groupby("uid", window=HOUR).aggregate(n=Count(window=Tumbling("2h"))), "NX302", "another window than its group"),
        (lambda o, u: o.rename({"coupon": "window"}).dropnull("window").groupby("window", window=HOUR).aggregate(), "NX203", "`window` is given twice"),
        (lambda o, u: o.groupby("uid", window=HOUR).aggregate(window=Count()), "NX203", "`window` is given twice"),
        (lambda o, u: o.groupby("at").aggregate(TOTAL), "NX204", "cannot be grouped by"),
        (lambda o, u: o.groupby("amount").aggregate(TOTAL), "NX204", "cannot be a key"),
        # aggregate
        (lambda o, u: o.groupby("uid").aggregate(), "NX301", "the aggregate has no input"),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, emit="late"), "NX301", "`emit` got `'late'`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count()), "NX301", "the `Count` `n` has no window"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window="1d")), "NX302", "got the window `'1d'`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Session("1h"))), "NX302", "has a session window"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Hopping("1h", "2h"))), "NX302", "has a stride longer than its duration"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Continuous("0s"))), "NX302", "the window of `n` is empty"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Tumbling("forever"))), "NX102", "forever"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Hopping("forever", "forever"))), "NX102", "forever"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Session("forever"))), "NX102", "forever"),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, m=Count(window=HOUR)), "NX302", "some are discrete"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=HOUR), m=Count(window=Tumbling("1h", lookback="1h"))), "NX302", "different lookbacks"),
        (lambda o, u: o.groupby("uid").aggregate(Count(window=DAY, into_field="along")), "NX301", "`along` is an argument"),
        (lambda o, u: o.groupby("uid").aggregate(Count(window=DAY, into_field="emit")), "NX301", "`emit` is an argument"),
        (lambda o, u: o.groupby("uid").aggregate(Count(window=DAY, into_field="uid")), "NX203", "`uid` is given twice"),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, along="shiped"), "NX202", "`shiped`"),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, along="due"), "NX301", "has type `date`"),
        (lambda o, u: o.groupby("uid").aggregate(TOTAL, along=5), "NX301", "the name of a column"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=HOUR), along="shipped", emit="final"), "NX301", "do not go together"),
        (lambda o, u: o.groupby("uid", window=HOUR).aggregate(along="shipped"), "NX301", "do not go together"),
        (lambda o, u: u.groupby("country").aggregate(n=Count(window=HOUR)), "NX302", "keyed rows are valid"),
        (lambda o, u: u.groupby("country").aggregate(n=Count(window=Hopping("1d", "1h"))), "NX302", "keyed rows are valid"),
        (lambda o, u: o.groupby("uid").aggregate(n=ExpDecaySum(of="amount", half_life="1h", window=HOUR), emit="final"), "NX301", "never has a final value"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Continuous("1d", max_error="1"))), "NX302", "`max_error` got `1`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Continuous("1d", max_error="some%"))), "NX302", "`max_error` got `some%`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(window=Continuous("forever", max_error="1%"))), "NX302", "has no length"),
        # specs
        (lambda o, u: o.groupby("uid").aggregate(n=ExpDecaySum(of="amount", half_life="0s", window=DAY)), "NX301", "half-life is not above zero"),
        (lambda o, u: o.groupby("uid").aggregate(n=ExpDecaySum(of="amount", half_life="1x", window=DAY)), "NX102", "`x`"),
        (lambda o, u: o.groupby("uid").aggregate(n=ExpDecaySum(of="coupon", half_life="1h", window=DAY)), "NX301", "a number"),
        (lambda o, u: o.groupby("uid").aggregate(n=Quantile(of="amount", p=10.0, window=DAY)), "NX301", "`p` is 10; it lies between 0 and 1"),
        (lambda o, u: o.groupby("uid").aggregate(n=Quantile(of="coupon", p=0.5, window=DAY)), "NX301", "a number"),
        (lambda o, u: o.groupby("uid").aggregate(n=Distinct(of="amount", unordered=True, window=DAY)), "NX301", "no distinct values"),
        (lambda o, u: o.groupby("uid").aggregate(n=FirstK(of="amount", limit=0, dedup=False, dropnull=False, window=DAY)), "NX301", "is too small"),
        (lambda o, u: o.groupby("uid").aggregate(n=FirstK(of="amount", limit=1, dedup=False, dropnull=True, window=DAY)), "NX301", "no nulls"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(unique=True, window=DAY)), "NX301", "needs a column"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(of="amount", unique=True, window=DAY)), "NX301", "distinct values"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(dropnull=True, window=DAY)), "NX301", "needs a column"),
        (lambda o, u: o.groupby("uid").aggregate(n=Count(of="uid", dropnull=True, window=DAY)), "NX301", "no nulls"),
        (lambda o, u: o.groupby("uid").aggregate(n=Sum(of="coupon", window=DAY)), "NX301", "a number"),
        (lambda o, u: o.groupby("uid").aggregate(n=Average(of="coupon", window=DAY)), "NX301", "a number"),
        (lambda o, u: o.groupby("uid").aggregate(n=Min(of="coupon", window=DAY)), "NX301", "int, float, decimal, date or datetime"),
        (lambda o, u: o.groupby("uid").aggregate(n=Max(of="uid", default=0.91, window=DAY)), "NX301", "`0.91` is not of type `int`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Max(of="due", default=5, window=DAY)), "NX301", "`5` is not of type `date`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Max(of="shipped", default=date(2026, 1, 1), window=DAY)), "NX301", "is not of type `datetime`"),
        (lambda o, u: o.groupby("uid").aggregate(n=Max(of="price", default=Decimal("0.123"), window=DAY)), "NX301", "`0.123` is not of type `Decimal[2]`"),
        # joins
        (lambda o, u: u.join(u, how="left", on=["uid"], within=("1d", "forever"), fields=[]), "NX206", "has no end"),
        # after a continuous aggregate
        (lambda o, u: o.groupby("uid").aggregate(TOTAL).rename({"n": "m"}), "NX208", "no step can follow"),
    ],
)  # fmt: skip
def test_an_impossible_step_is_reported_once_with_its_line(body: Any, code: str, said: str) -> None:
    (error,) = _errors(body)

    assert error.code == code, error
    assert said in error.message, error
    assert error.origin.line


def test_mistakes_in_one_pipeline_are_reported_together_with_their_lines() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @dataset
        class Bad:
            uid: int = field(key=True)
            n: float
            at: datetime

            @pipeline
            @inputs(Orders)
            def p(cls, orders: Rows) -> Rows:  # noqa: N805
                left = orders.explode("coupon").dedup("at")
                right = orders.filter(col("amount") + 1)
                rows = left + right
                return rows.groupby("uid", window=Tumbling("1d")).aggregate(
                    q=Quantile(of="due", p=0.5)
                )

    found = raised.value.exceptions_flat()
    assert [error.code for error in found] == ["NX205", "NX204", "NX401", "NX301"]
    assert [error.origin.line - found[0].origin.line for error in found] == [0, 0, 1, 3]
    assert {error.origin.file for error in found} == {"tests/core/sdk/test_declare_operators.py"}


def test_a_part_that_cannot_be_read_hides_no_other_mistake() -> None:
    def body(o: Rows, u: Rows) -> Rows:
        rows = (
            o.filter(5)
            .dedup("uid", window=DAY)
            .assign("x", int, "no function")
            .transform(None, schema={**o.schema(), "x": str})
            .join(u, how="outer", on=["uid"], within="1d", fields=["cuntry"])
            .select("uid", "amuont", "x")
        )
        return rows.groupby("uidd").aggregate(
            n=Sum(of="x", window=DAY), m=3, k=Count(), along="seen", emit="late"
        )

    assert [error.code for error in _errors(body)] == [
        "NX205",  # filter
        "NX302",  # dedup
        "NX701",  # assign
        "NX701",  # transform
        "NX206",  # how
        "NX206",  # within
        "NX202",  # fields
        "NX202",  # select
        "NX301",  # m
        "NX301",  # k
        "NX301",  # emit
        "NX202",  # groupby
        "NX301",  # n
        "NX202",  # along
    ]


def test_unknown_columns_cause_no_further_errors() -> None:
    def body(o: Rows, u: Rows) -> Rows:
        left = o.rename("sku").drop("nothing")
        return (left + u.drop("nobody")).groupby("nowhere").aggregate(n=Count(window=DAY))

    assert [error.code for error in _errors(body)] == ["NX205", "NX202"]


def test_mistakes_of_both_sides_of_a_union_are_reported_once() -> None:
    def body(o: Rows, u: Rows) -> Rows:
        wrong = o.explode("coupon")
        return wrong.drop("due") + wrong.drop("dew")

    found = _errors(body)

    assert [error.code for error in found] == ["NX205", "NX202", "NX205"]


def test_steps_may_follow_an_aggregate_without_sliding_windows() -> None:
    discrete = _schema(
        lambda o, u: o.groupby("uid").aggregate(n=Count(window=HOUR)).rename({"n": "m"})
    )
    final = _schema(
        lambda o, u: o.groupby("uid").aggregate(TOTAL, emit="final").changelog(insert="new")
    )

    assert discrete == {"uid": Int(), "m": Int(), "at": Datetime()}
    assert final == {"uid": Int(), "n": Float(), "new": Bool(), "at": Datetime()}


def _made_of(kind: Sum | ExpDecaySum, emit: str = "eager") -> Any:
    @dataset
    class Counted:
        uid: int = field(key=True)
        n: float
        at: datetime

        @pipeline
        @inputs(Orders)
        def p(cls, orders: Rows) -> Rows:  # noqa: N805
            return orders.groupby("uid").aggregate(n=kind, emit=emit)

    return Counted


def _read(of: Dataset) -> None:
    @dataset
    class After:
        uid: int = field(key=True)
        n: float
        at: datetime

        @pipeline
        @inputs(of)
        def p(cls, counted: Rows) -> Rows:  # noqa: N805
            return counted.filter(col("n") > 0)


def test_only_a_dataset_that_changes_at_every_instant_is_terminal() -> None:
    _read(_made_of(Sum(of="amount", window=HOUR)))
    _read(_made_of(Sum(of="amount", window=Hopping("forever", "1h"))))
    for terminal in (
        _made_of(TOTAL),
        _made_of(TOTAL, emit="final"),
        _made_of(ExpDecaySum(of="amount", half_life="1h", window=HOUR)),
    ):
        with pytest.raises(DefinitionErrors) as raised:
            _read(terminal)
        (error,) = raised.value.exceptions_flat()
        assert isinstance(error, OperatorAfterTerminal)


def test_keyed_rows_are_aggregated_where_none_leaves_a_window() -> None:
    for rows in (
        lambda o, u: u.groupby("country").aggregate(n=Count(window=Continuous("1d"))),
        lambda o, u: u.groupby("country").aggregate(n=Count(window=Hopping("forever", "1h"))),
        lambda o, u: u.groupby("country").aggregate(n=Count(window=Tumbling("1d")), along="seen"),
    ):
        assert _schema(rows)["n"] == Int()


def test_rows_are_grouped_by_what_is_compared_exactly() -> None:
    keyed = _schema(lambda o, u: o.groupby("skus", "due", "price").aggregate(n=Count(window=DAY)))

    assert [*keyed] == ["skus", "due", "price", "n", "at"]
    for name in ("amount", "coupon"):
        (error,) = _errors(lambda o, u, name=name: o.groupby(name).first())
        assert error.code == "NX204"


def _every_step() -> Definitions:
    @meta(owner="a@b.co")
    @dataset(index=True)
    class Everything:
        uid: int = field(key=True)
        window: Window = field(key=True)
        n: int
        at: datetime

        @pipeline
        @inputs(Orders, Users)
        def p(cls, orders: Rows, users: Rows) -> Rows:  # noqa: N805
            left = orders.transform(shout).dedup("uid", window=Session("1h")).explode("skus")
            right = users.changelog(delete="gone").join(users, how="left", on=["uid"], fields=[])
            both = left.select("uid") + right.select("uid")
            return both.groupby("uid", window=Tumbling("1h")).aggregate(n=Count(), emit="final")

    return definitions([Orders, Users, Everything], [])


def test_every_step_survives_the_wire_and_is_the_same_afterwards() -> None:
    made = _every_step()
    payload = CommitPayload(message="m", env="", definitions=made, client_version="1")

    found = decode_commit(encode_commit(payload)).definitions

    assert check(made) == ()
    assert found == made
    assert compare(made, found, incremental=True).errors == ()


def test_a_change_on_either_side_of_a_union_asks_for_a_version() -> None:
    made = _every_step()
    (old,) = (one for one in made.datasets if one.name == "Everything")
    aggregate = old.pipelines[0].terminal
    assert isinstance(aggregate, Aggregate)
    union = aggregate.input
    assert isinstance(union, Union)
    changed = attrs.evolve(union, other=union.input)
    pipeline_after = attrs.evolve(old.pipelines[0], terminal=attrs.evolve(aggregate, input=changed))
    after = attrs.evolve(
        made,
        datasets=tuple(
            attrs.evolve(one, pipelines=(pipeline_after,)) if one is old else one
            for one in made.datasets
        ),
    )

    assert [error.code for error in compare(made, after, incremental=True).errors] == ["NX807"]
