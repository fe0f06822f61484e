"""Expectations are expectations about fields that exist, by arguments that can be held."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest

from narthex import lib
from narthex._analysis.changes import compare
from narthex._analysis.graph import check
from narthex._base import encode, from_plain, to_plain
from narthex._compiler.capability import not_carried_out
from narthex._ir.entities import Action, Definitions, Expectation, Severity
from narthex._ir.types import Float
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex._sdk.declare.expectations import Expected
from narthex._sdk.features.featuresets import featureset_entity
from narthex.connectors import Webhook, source
from narthex.datasets import Count, Dataset, dataset, field, pipeline
from narthex.dtypes import Continuous, Tumbling
from narthex.errors import DefinitionErrors, ExpectationInvalid
from narthex.featuresets import Featureset, feature, featureset
from narthex.lib import expectations, inputs, meta
from tests.cases import every

CALLS: dict[str, tuple[Any, ...]] = {
    "expect_column_values_to_not_be_null": ("amount",),
    "expect_column_values_to_be_null": ("amount",),
    "expect_column_values_to_be_of_type": ("amount", "float"),
    "expect_column_values_to_be_in_type_list": ("amount", ["float", "int"]),
    "expect_column_values_to_be_in_set": ("kind", ["web", "shop"]),
    "expect_column_values_to_not_be_in_set": ("kind", ["web"]),
    "expect_column_values_to_be_between": ("amount", 0, 100),
    "expect_column_value_lengths_to_be_between": ("kind", 1, 10),
    "expect_column_value_lengths_to_equal": ("kind", 3),
    "expect_column_values_to_match_regex": ("kind", "^w"),
    "expect_column_values_to_not_match_regex": ("kind", "^w"),
    "expect_column_values_to_match_regex_list": ("kind", ["^w", "^s"]),
    "expect_column_values_to_not_match_regex_list": ("kind", ["^x"]),
    "expect_column_values_to_match_strftime_format": ("kind", "%Y"),
    "expect_column_values_to_be_dateutil_parseable": ("kind",),
    "expect_column_values_to_be_json_parseable": ("kind",),
    "expect_column_values_to_match_json_schema": ("kind", {"type": "object"}),
    "expect_column_pair_values_to_be_equal": ("uid", "amount"),
    "expect_column_pair_values_A_to_be_greater_than_B": ("uid", "amount"),
    "expect_column_pair_values_to_be_in_set": ("uid", "kind", [(1, "web")]),
    "expect_multicolumn_sum_to_equal": (["uid", "amount"], 5),
}


def _orders(promised: Callable[[], Any]) -> Dataset:
    @meta(owner="a@b.co")
    @source(Webhook("w").endpoint("e"), disorder="1h", cdc="append")
    @dataset
    class Orders:
        uid: int
        amount: float
        kind: str
        day: date
        at: datetime

        @expectations
        def promises(cls) -> Any:  # noqa: N805
            return promised()

    return Orders


def test_all_twenty_one_names_can_be_called() -> None:
    known = {name for name in lib.__all__ if name.startswith("expect_")}
    made = _orders(lambda: [getattr(lib, name)(*given) for name, given in CALLS.items()])

    found = dataset_entity(made).expectations
    assert known == CALLS.keys()
    assert [one.kind for one in found] == list(CALLS)
    assert check(definitions([made], [])) == ()


def test_every_expectation_has_a_severity_which_is_a_warning_by_default() -> None:
    made = _orders(
        lambda: [
            getattr(lib, name)(*given, **severity)
            for name, given in CALLS.items()
            for severity in ({}, {"severity": "critical"}, {"severity": "warning"})
        ]
    )

    found = [one.severity for one in dataset_entity(made).expectations]
    assert found == [Severity.WARNING, Severity.CRITICAL, Severity.WARNING] * len(CALLS)


def test_a_warning_means_the_same_as_an_expectation_without_a_severity() -> None:
    (warning,) = dataset_entity(_orders(_promise(*_NOT_NULL))).expectations
    (critical,) = dataset_entity(_orders(_promise(*_NOT_NULL, severity="critical"))).expectations

    plain = to_plain(warning)
    assert isinstance(plain, dict)
    assert plain.pop("severity")
    assert from_plain(plain) == warning
    assert b"severity" not in encode(warning)
    assert encode(critical) != encode(warning)
    assert from_plain(to_plain(critical)) == critical


def test_an_expectation_that_warns_means_the_same_as_one_without_an_action() -> None:
    made = [
        dataset_entity(_orders(_promise(*_NOT_NULL, **action))).expectations
        for action in ({}, {"action": "warn"}, {"action": "drop"}, {"action": "quarantine"})
    ]

    (former,), (warning,), (dropping,), (quarantining,) = made
    assert former == warning
    assert b"action" not in encode(warning)
    assert len({encode(one) for one in (warning, dropping, quarantining)}) == 3
    assert (dropping.action, quarantining.action) == (Action.DROP, Action.QUARANTINE)


_NOT_NULL = ("expect_column_values_to_not_be_null", "uid")


@pytest.mark.parametrize("action", ["drop", "quarantine"])
@pytest.mark.parametrize(
    ("name", "given", "more", "reason"),
    [
        ("expect_column_values_to_not_be_null", ("uid",), {"mostly": 0.9}, "a share of all rows"),
        ("expect_column_values_to_be_of_type", ("uid", "int"), {}, "the field has one type"),
        ("expect_column_values_to_be_dateutil_parseable", ("kind",), {}, "depends on the day"),
        ("expect_column_values_to_match_json_schema", ("kind", {}), {}, "in linear time"),
        ("expect_column_values_to_match_regex", ("uid", "1"), {}, "of the type `int`"),
        ("expect_column_values_to_be_between", ("kind", 1), {}, "of the type `str` have no bounds"),
        ("expect_column_values_to_be_in_set", ("day", ["soon"]), {}, "`'soon'` is not a value"),
        ("expect_column_values_to_match_strftime_format", ("kind", "%Q"), {}, "cannot be read"),
        ("expect_column_pair_values_to_be_equal", ("uid", "kind"), {}, "cannot be compared"),
        ("expect_multicolumn_sum_to_equal", (["uid", "kind"], 1), {}, "cannot be added"),
    ],
)
def test_an_action_on_what_judges_no_single_row_is_refused_with_its_line(
    name: str, given: tuple[object, ...], more: dict[str, object], reason: str, action: str
) -> None:
    with pytest.raises(DefinitionErrors) as refused:
        dataset_entity(_orders(_promise(name, *given, **more, action=action)))

    (error,) = refused.value.exceptions
    assert error.message.startswith(f"`{name}` cannot have `action='{action}'`: ")
    assert reason in error.message
    assert error.origin.file.endswith("test_declare_expectations.py")
    assert dataset_entity(_orders(_promise(name, *given, **more))).enforced == ()


def test_instants_days_and_decimals_are_bounds_as_text() -> None:
    made = _orders(
        lambda: [
            lib.expect_column_values_to_be_between("at", datetime(2024, 1, 1, tzinfo=UTC)),
            lib.expect_column_values_to_be_in_set("day", [date(2024, 1, 1)]),
            lib.expect_column_values_to_be_between("amount", max_value=Decimal("1.5"), mostly=0.5),
        ]
    )

    instants, days, decimals = dataset_entity(made).expectations
    assert dict(instants.arguments)["min_value"] == "2024-01-01T00:00:00.000000Z"
    assert dict(days.arguments)["value_set"] == ("2024-01-01",)
    assert (dict(decimals.arguments)["max_value"], decimals.mostly) == ("1.5", 0.5)


def _promise(name: str, *given: Any, **more: Any) -> Callable[[], Expected]:
    call: Callable[..., Expected] = getattr(lib, name)
    return lambda: call(*given, **more)


@every(
    ("promise", "says"),
    [
        (_promise("expect_column_values_to_not_be_null", "amuont"), "did you mean `amount`?"),
        (_promise("expect_column_pair_values_to_be_equal", "uid", "amuont"), "about `amuont`"),
        (_promise("expect_multicolumn_sum_to_equal", ["uid", "no"], 5), "about `no`"),
        (_promise("expect_column_values_to_not_be_null", "uid", mostly=1.5), "expected 0 to 1"),
        (
            _promise("expect_column_values_to_not_be_null", "uid", severity="grave"),
            "`severity` is 'grave'; expected `critical`, `warning`",
        ),
        (
            _promise("expect_column_values_to_not_be_null", "uid", action="delete"),
            "`action` is 'delete'; expected `warn`, `quarantine`, `drop`",
        ),
        (_promise("expect_column_values_to_be_between", "uid"), "neither `min_value` nor"),
        (_promise("expect_column_values_to_be_between", "uid", 5, 1), "5 is above `max_value` 1"),
        (_promise("expect_column_values_to_match_regex", "kind", "("), "cannot be read"),
        (_promise("expect_column_values_to_not_match_regex_list", "kind", ["("]), "cannot be read"),
        (
            _promise("expect_column_values_to_match_regex_list", "kind", ["a"], match_on="most"),
            "expected `any` or `all`",
        ),
        (
            _promise("expect_column_pair_values_to_be_equal", "uid", "uid", ignore_row_if="never"),
            "expected one of `both_values_are_missing`",
        ),
        (
            _promise("expect_multicolumn_sum_to_equal", ["uid"], 5, ignore_row_if="neither"),
            "expected one of `all_values_are_missing`",
        ),
        (
            _promise("expect_column_pair_values_to_be_in_set", "uid", "uid", [(1,)]),
            "needs pairs",
        ),
        (_promise("expect_column_values_to_be_in_set", "uid", [object()]), "not a literal"),
        (lambda: "uid is nice", "they want `expect_…` calls"),
        (lambda: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_promise_that_cannot_be_held_is_refused(promise: Any, says: str) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _orders(lambda: [promise()])

    (found,) = raised.value.exceptions_flat()
    assert says in str(found)
    assert found.origin.file.endswith("test_declare_expectations.py")


def test_a_dataset_expects_once() -> None:
    with pytest.raises(DefinitionErrors, match="has expectations twice"):

        @dataset
        class D:
            at: datetime

            @expectations
            def one(cls) -> Any:  # noqa: N805
                return []

            @expectations
            def two(cls) -> Any:  # noqa: N805
                return []


def _featureset(promised: Callable[[], Any]) -> Featureset:
    @meta(owner="a@b.co")
    @featureset
    class F:
        a: int
        b: str | None
        gone: int = feature().meta(deleted=True)

        @expectations
        def one(cls) -> Any:  # noqa: N805
            return promised()

    return F


def test_a_featureset_has_expectations_about_its_features() -> None:
    promised = [
        lib.expect_column_values_to_be_between("a", min_value=0, severity="critical"),
        lib.expect_column_values_to_not_be_null("b", mostly=0.9),
        lib.expect_column_values_to_not_be_null("gone"),
    ]

    found = featureset_entity(_featureset(lambda: promised))

    assert [(dict(one.arguments)["column"], one.mostly) for one in found.expectations] == [
        ("a", None),
        ("b", 0.9),
    ]
    assert found.expectations[0].severity is Severity.CRITICAL
    assert check(Definitions(datasets=(), featuresets=(found,))) == ()
    assert from_plain(to_plain(found)) == found


def test_expectations_of_a_featureset_that_has_none_leave_its_bytes() -> None:
    found = featureset_entity(_featureset(list))
    plain = to_plain(found)

    assert isinstance(plain, dict)
    assert from_plain({name: one for name, one in plain.items() if name != "expectations"}) == found
    assert b"Expectation" not in encode(found)


def test_an_expectation_of_an_unknown_feature_is_refused_with_its_line() -> None:
    with pytest.raises(DefinitionErrors) as refused:
        _featureset(lambda: [lib.expect_column_values_to_not_be_null("aa")])

    said = str(refused.value)
    assert "is about `aa`, which is not a feature; there are `a`, `b`" in said
    assert "test_declare_expectations.py" in said


@pytest.mark.parametrize("action", ["quarantine", "drop"])
def test_no_expectation_of_a_featureset_takes_rows_out(action: str) -> None:
    def promised() -> list[Expected]:
        return [lib.expect_column_values_to_not_be_null("b", action=action)]

    with pytest.raises(DefinitionErrors, match="so no row enters it"):
        _featureset(promised)

    # Definitions that a client sends are checked as well.
    (made,) = [one.expectation for one in promised()]
    of = attrs.evolve(featureset_entity(_featureset(list)), expectations=(made,))
    (error,) = check(Definitions(datasets=(), featuresets=(of,)))
    assert "so no row enters it" in str(error)


def test_a_featureset_has_one_method_with_expectations() -> None:
    with pytest.raises(DefinitionErrors, match="featureset `F` has expectations twice"):

        @featureset
        class F:
            a: int

            @expectations
            def one(cls) -> Any:  # noqa: N805
                return []

            @expectations
            def two(cls) -> Any:  # noqa: N805
                return []


def test_a_changed_expectation_of_a_featureset_is_a_change_without_a_version() -> None:
    def promising(least: int) -> Definitions:
        of = _featureset(lambda: [lib.expect_column_values_to_be_between("a", min_value=least)])
        return Definitions(datasets=(), featuresets=(featureset_entity(of),))

    changes = compare(promising(0), promising(1), incremental=False)

    assert changes.errors == ()
    assert changes.metadata_only == ("featureset `F`: its expectations",)
    assert changes.definitions == promising(1)


def _counts(window: Any, **enforced: str) -> Definitions:
    orders = _orders(list)

    class Counts:
        uid: int = field(key=True)
        n: int
        at: datetime

        @pipeline
        @inputs(orders)
        def counted(cls, orders: Any) -> Any:  # noqa: N805
            return orders.groupby("uid").aggregate(n=Count(window=window))

        @expectations
        def positive(cls) -> Any:  # noqa: N805
            return [lib.expect_column_values_to_be_between("n", 0, **enforced)]

    return definitions([orders, meta(owner="a@b.co")(dataset(Counts))], [])


@pytest.mark.parametrize("window", [Continuous("1h"), Tumbling("1h")])
def test_aggregates_are_audited_and_never_enforced(window: Any) -> None:
    made = _counts(window)

    assert (check(made), not_carried_out(made)) == ((), ())
    with pytest.raises(DefinitionErrors, match="`Counts` ends in an aggregate, whose values"):
        _counts(window, action="drop")
    (expectation,) = made.datasets[-1].expectations
    enforced = attrs.evolve(expectation, action=Action.QUARANTINE)
    datasets = (*made.datasets[:-1], attrs.evolve(made.datasets[-1], expectations=(enforced,)))
    (error,) = check(attrs.evolve(made, datasets=datasets))
    assert isinstance(error, ExpectationInvalid)


def test_the_server_checks_promises_that_came_over_the_wire() -> None:
    made = definitions([_orders(list)], [])
    wrong = Expectation(kind="expect_column_values_to_be_between", arguments=(("column", "no"),))
    changed = attrs.evolve(made.datasets[0], expectations=(wrong,))

    codes = [one.code for one in check(attrs.evolve(made, datasets=(changed,)))]

    assert codes == ["NX120"]
    assert isinstance(made.datasets[0].schema.columns["amount"], Float)
