"""The expectations about rows, with the names of Great Expectations."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, TypeAlias

from narthex._sdk.declare.expectations import Expected, expect

Scalar: TypeAlias = str | int | float | bool | date | Decimal | None
Bound: TypeAlias = float | str | date | Decimal | None
"""A number, an instant, a day, or one of the two as text; None for no bound."""

SeverityName: TypeAlias = Literal["critical", "warning"]
"""The consequence of rows that break an expectation.

`critical`: readers do not flip to a commit whose history has such rows, and audits fail.
`warning`: the rows are reported.
"""

ActionName: TypeAlias = Literal["warn", "quarantine", "drop"]
"""The fate of a row that breaks an expectation.

`warn`: it is in the dataset, and audits report it.
`quarantine`: it is not in the dataset, but in its quarantine, and is counted.
`drop`: it is not in the dataset, and is counted.
"""


def expect_column_values_to_not_be_null(
    column: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """The column has no null."""
    return expect(
        "expect_column_values_to_not_be_null", {"column": column}, mostly, severity, action
    )


def expect_column_values_to_be_null(
    column: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """The column has only nulls."""
    return expect("expect_column_values_to_be_null", {"column": column}, mostly, severity, action)


def expect_column_values_to_be_of_type(
    column: str,
    type_: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are of a type, given by name."""
    return expect(
        "expect_column_values_to_be_of_type",
        {"column": column, "type_": type_},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_be_in_type_list(
    column: str,
    type_list: Sequence[str],
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are of one of the listed types."""
    return expect(
        "expect_column_values_to_be_in_type_list",
        {"column": column, "type_list": type_list},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_be_in_set(
    column: str,
    value_set: Collection[Scalar],
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are among those listed."""
    return expect(
        "expect_column_values_to_be_in_set",
        {"column": column, "value_set": value_set},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_not_be_in_set(
    column: str,
    value_set: Collection[Scalar],
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are not among those listed."""
    return expect(
        "expect_column_values_to_not_be_in_set",
        {"column": column, "value_set": value_set},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_be_between(  # noqa: PLR0913 (one parameter an option)
    column: str,
    min_value: Bound = None,
    max_value: Bound = None,
    strict_min: bool = False,
    strict_max: bool = False,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values lie between bounds, inclusive unless strict."""
    return expect(
        "expect_column_values_to_be_between",
        {
            "column": column,
            "min_value": min_value,
            "max_value": max_value,
            "strict_min": strict_min,
            "strict_max": strict_max,
        },
        mostly,
        severity,
        action,
    )


def expect_column_value_lengths_to_be_between(
    column: str,
    min_value: int | None = None,
    max_value: int | None = None,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Lengths lie between bounds, inclusive."""
    return expect(
        "expect_column_value_lengths_to_be_between",
        {"column": column, "min_value": min_value, "max_value": max_value},
        mostly,
        severity,
        action,
    )


def expect_column_value_lengths_to_equal(
    column: str,
    value: int,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """All lengths are the same."""
    return expect(
        "expect_column_value_lengths_to_equal",
        {"column": column, "value": value},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_match_regex(
    column: str,
    regex: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values match a pattern."""
    return expect(
        "expect_column_values_to_match_regex",
        {"column": column, "regex": regex},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_not_match_regex(
    column: str,
    regex: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """No value matches a pattern."""
    return expect(
        "expect_column_values_to_not_match_regex",
        {"column": column, "regex": regex},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_match_regex_list(
    column: str,
    regex_list: Sequence[str],
    match_on: str = "any",
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values match any or all of the patterns."""
    return expect(
        "expect_column_values_to_match_regex_list",
        {"column": column, "regex_list": regex_list, "match_on": match_on},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_not_match_regex_list(
    column: str,
    regex_list: Sequence[str],
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """No value matches one of the patterns."""
    return expect(
        "expect_column_values_to_not_match_regex_list",
        {"column": column, "regex_list": regex_list},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_match_strftime_format(
    column: str,
    strftime_format: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are dates in a format."""
    return expect(
        "expect_column_values_to_match_strftime_format",
        {"column": column, "strftime_format": strftime_format},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_be_dateutil_parseable(
    column: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values can be read as dates."""
    return expect(
        "expect_column_values_to_be_dateutil_parseable",
        {"column": column},
        mostly,
        severity,
        action,
    )


def expect_column_values_to_be_json_parseable(
    column: str,
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are JSON."""
    return expect(
        "expect_column_values_to_be_json_parseable", {"column": column}, mostly, severity, action
    )


def expect_column_values_to_match_json_schema(
    column: str,
    json_schema: Mapping[str, object],
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Values are JSON of a schema, which is sent as JSON text."""
    return expect(
        "expect_column_values_to_match_json_schema",
        {"column": column, "json_schema": json_schema},
        mostly,
        severity,
        action,
    )


def expect_column_pair_values_to_be_equal(
    column_A: str,  # noqa: N803
    column_B: str,  # noqa: N803
    ignore_row_if: str = "both_values_are_missing",
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Two columns are equal, row by row."""
    return expect(
        "expect_column_pair_values_to_be_equal",
        {"column_A": column_A, "column_B": column_B, "ignore_row_if": ignore_row_if},
        mostly,
        severity,
        action,
    )


def expect_column_pair_values_A_to_be_greater_than_B(  # noqa: N802, PLR0913 (as Great Expectations)
    column_A: str,  # noqa: N803
    column_B: str,  # noqa: N803
    or_equal: bool | None = None,
    ignore_row_if: str = "both_values_are_missing",
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """One column is greater than the other, row by row."""
    return expect(
        "expect_column_pair_values_A_to_be_greater_than_B",
        {
            "column_A": column_A,
            "column_B": column_B,
            "or_equal": or_equal,
            "ignore_row_if": ignore_row_if,
        },
        mostly,
        severity,
        action,
    )


def expect_column_pair_values_to_be_in_set(  # noqa: PLR0913 (one parameter an option)
    column_A: str,  # noqa: N803
    column_B: str,  # noqa: N803
    value_pairs_set: Collection[tuple[Scalar, Scalar]],
    ignore_row_if: str = "both_values_are_missing",
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Pairs of values are among those listed."""
    return expect(
        "expect_column_pair_values_to_be_in_set",
        {
            "column_A": column_A,
            "column_B": column_B,
            "value_pairs_set": value_pairs_set,
            "ignore_row_if": ignore_row_if,
        },
        mostly,
        severity,
        action,
    )


def expect_multicolumn_sum_to_equal(
    column_list: Sequence[str],
    sum_total: float,
    ignore_row_if: str = "all_values_are_missing",
    mostly: float | None = None,
    *,
    severity: SeverityName = "warning",
    action: ActionName = "warn",
) -> Expected:
    """Columns add up to a number, row by row."""
    return expect(
        "expect_multicolumn_sum_to_equal",
        {"column_list": column_list, "sum_total": sum_total, "ignore_row_if": ignore_row_if},
        mostly,
        severity,
        action,
    )
