"""Expectations of datasets and featuresets as suites of Great Expectations."""

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from narthex._base import Json
from narthex._ir import DatasetPlan, DataType, Expectation, LiteralValue, TypeMapper
from narthex_expectations.audit_results import EXAMPLES, UnknownExpectationError

if TYPE_CHECKING:  # it takes seconds to import, and many spans have no rows
    import great_expectations as gx

_RENAMED = {
    "expect_column_pair_values_A_to_be_greater_than_B": (
        "expect_column_pair_values_a_to_be_greater_than_b"
    ),
}
"""The names in definitions that differ from those of Great Expectations."""

KINDS = frozenset(
    {
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_of_type",
        "expect_column_values_to_be_in_type_list",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_be_between",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_not_match_regex_list",
        "expect_column_values_to_match_strftime_format",
        "expect_column_values_to_be_dateutil_parseable",
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_match_json_schema",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_A_to_be_greater_than_B",
        "expect_column_pair_values_to_be_in_set",
        "expect_multicolumn_sum_to_equal",
    }
)
"""The kinds of expectations that a definition can declare."""

_NULLS = {
    "expect_column_pair_values_A_to_be_greater_than_B": "either_value_is_missing",
    "expect_multicolumn_sum_to_equal": "any_value_is_missing",
}
"""The rows that an expectation skips, unless it names them: nothing is greater than null."""

NUMBER = "number"
"""The metadata key with an expectation's number among those of its dataset."""


def compile_suite(plan: DatasetPlan) -> "gx.ExpectationSuite":
    """Return the suite of a dataset's expectations, in their order.

    Raises:
        UnknownExpectationError: An expectation is of another kind than `KINDS`.
    """
    return suite_of(f"{plan.name}@{plan.version}", plan.expectations, plan.schema.columns)


def suite_of(
    name: str, expectations: Sequence[Expectation], columns: Mapping[str, DataType]
) -> "gx.ExpectationSuite":
    """Return the suite of some expectations, in their order.

    Args:
        name: The suite's name.
        expectations: The expectations.
        columns: The types of the columns by name.

    Raises:
        UnknownExpectationError: An expectation is of another kind than `KINDS`.
    """
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )
    from great_expectations.expectations.metadata_types import FailureSeverity  # noqa: PLC0415

    return gx.ExpectationSuite(
        name=name,
        expectations=[
            ExpectationConfiguration(
                type=_RENAMED.get(expectation.kind, expectation.kind),
                kwargs=_kwargs(expectation, columns),
                meta={NUMBER: number},
                severity=FailureSeverity(expectation.severity.value),
            ).to_domain_obj()
            for number, expectation in enumerate(expectations)
        ],
    )


def suite_json(suite: "gx.ExpectationSuite") -> Json:
    """Return a suite as JSON that any installation of Great Expectations loads."""
    found: Json = json.loads(json.dumps(suite.to_json_dict()))
    return found


def validated(
    suite: "gx.ExpectationSuite", rows: pd.DataFrame, keys: list[str]
) -> list[dict[str, Json]]:
    """Check rows against a suite whose expectations are numbered; nothing is stored.

    Args:
        suite: The suite.
        rows: The rows.
        keys: The columns that name a row for people.

    Returns:
        The result of each expectation in their order, as Great Expectations writes it, with the
        keys of some rows that break it.
    """
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(enable=False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = (
        context.data_sources.add_pandas("history")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
        .get_batch(batch_parameters={"dataframe": rows})
    )
    validation = batch.validate(
        suite,
        result_format={
            "result_format": "SUMMARY",
            "partial_unexpected_count": EXAMPLES,
            **({"unexpected_index_column_names": keys} if keys else {}),
        },
    )
    return numbered(json.loads(json.dumps(validation.to_json_dict()))["results"])


def numbered(results: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return results of a suite whose expectations are numbered, in the order of these."""
    return sorted(results, key=_number)


def _number(result: Mapping[str, Json]) -> int:
    match result:
        case {"expectation_config": {"meta": {"number": int(number)}}}:
            return number
        case _:
            raise ValueError(f"a result of Great Expectations lacks `{NUMBER}` in its meta")


def _kwargs(expectation: Expectation, columns: Mapping[str, DataType]) -> dict[str, object]:
    if expectation.kind not in KINDS:
        raise UnknownExpectationError(f"unknown kind of expectation `{expectation.kind}`")
    given = dict(expectation.arguments)
    of = columns.get(str(given.get("column")))
    kwargs = {name: _argument(name, value, of) for name, value in given.items()}
    if expectation.kind in _NULLS:
        kwargs.setdefault("ignore_row_if", _NULLS[expectation.kind])
    return kwargs if expectation.mostly is None else kwargs | {"mostly": expectation.mostly}


def _argument(name: str, value: LiteralValue, of: DataType | None) -> object:
    match name, value:
        case "json_schema", str(text):
            return json.loads(text)
        case (("min_value" | "max_value" | "value_set"), _) if of is not None:
            return _of_type(value, of)
        case _, tuple(items):
            return [_argument("", item, None) for item in items]
        case _:
            return value


def _of_type(value: LiteralValue, of: DataType) -> object:
    """Return a bound or a member as the value that the column has in a data frame."""
    if isinstance(value, tuple):
        return [_of_type(item, of) for item in value]
    return _FRAME_VALUES(of)(value)


def _unchanged(value: LiteralValue) -> object:
    return value


def _instant(value: LiteralValue) -> object:
    if not isinstance(value, str):
        return value
    instant = dt.datetime.fromisoformat(value)
    return instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)


def _day(value: LiteralValue) -> object:
    return dt.date.fromisoformat(value) if isinstance(value, str) else value


def _decimal(value: LiteralValue) -> object:
    return decimal.Decimal(str(value)) if isinstance(value, int | float | str) else value


_FRAME_VALUES: TypeMapper[Callable[[LiteralValue], object]] = TypeMapper(
    int=_unchanged,
    float=_unchanged,
    bool=_unchanged,
    str=_unchanged,
    bytes=_unchanged,
    datetime=_instant,
    date=_day,
    decimal=lambda _: _decimal,
    list=lambda _, __: _unchanged,
    map=lambda _, __: _unchanged,
    embedding=lambda _, __: _unchanged,
    struct=lambda _, __: _unchanged,
    null=lambda: _unchanged,
)
