"""Expectations as predicates of one row, in the meaning of Great Expectations.

`prepare` is the only implementation: every engine judges rows by the predicates that it returns. A
null, or a float that is not a number, has no value: most expectations ignore it, as Great
Expectations does.
"""

import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex._base.json_depth import GREATEST_DEPTH, is_deeper
from narthex._base.patterns import finds
from narthex._base.times import to_micros
from narthex._ir.entities import COLUMN_ARGUMENTS, Expectation
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.facts import Cell
from narthex._ir.node_schema import listed
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    Str,
    inner,
    unrestricted,
)

RowPredicate: TypeAlias = Callable[[Mapping[str, Cell]], bool]
"""Whether a row, given as cells by column, meets an expectation."""

_CellPredicate: TypeAlias = Callable[[Cell], bool]
_Comparable: TypeAlias = int | float | str | decimal.Decimal

_REFUSED: Final = {
    "expect_column_values_to_be_of_type": "the field has one type, which every row has",
    "expect_column_values_to_be_in_type_list": "the field has one type, which every row has",
    "expect_column_values_to_be_dateutil_parseable": (
        "whether a text can be read depends on the day on which it is read"
    ),
    "expect_column_values_to_match_json_schema": (
        "a schema has patterns that are not matched in linear time"
    ),
}
_EXACT: Final = decimal.Context(prec=400)
_EPOCH: Final = dt.date(1970, 1, 1)
_SAMPLE: Final = dt.datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=dt.UTC)


class NotPerRowError(ValueError):
    """A single row cannot be judged by the expectation; the message has the reason."""


def prepare(expectation: Expectation, types: Mapping[str, DataType]) -> RowPredicate:
    """Return the predicate of an expectation.

    Args:
        expectation: An expectation about columns that exist.
        types: The types of the row's columns.

    Raises:
        NotPerRowError: It judges no single row, or a type or an argument does not suit it.
    """
    kind, given = expectation.kind, dict(expectation.arguments)
    if expectation.mostly is not None and expectation.mostly < 1:
        raise NotPerRowError("`mostly` is a share of all rows, which no single row has")
    if kind in _REFUSED:
        raise NotPerRowError(_REFUSED[kind])
    for prepared, make in ((_OF_CELLS, _of_cell), (_OF_ROWS, _of_row)):
        if kind in prepared:
            return make(kind, given, types)
    raise NotPerRowError("it judges the whole dataset, and no single row")


def columns_of(expectation: Expectation) -> tuple[str, ...]:
    """Return the columns that an expectation is about, in order."""
    given = dict(expectation.arguments)
    found: list[str] = []
    for name in COLUMN_ARGUMENTS:
        value = given.get(name)
        found += map(str, value) if isinstance(value, tuple) else [str(value)] if value else []
    return tuple(found)


def _is_missing(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


_Arguments: TypeAlias = Mapping[str, LiteralValue]
_Types: TypeAlias = Mapping[str, DataType]


def _of_cell(kind: str, given: _Arguments, types: _Types) -> RowPredicate:
    column = str(given.get("column"))
    of = _base(types, column)
    holds = _OF_CELLS[kind](given, of)
    if kind in _ABOUT_NULLS:
        return lambda row: holds(row[column])

    def judge(row: Mapping[str, Cell]) -> bool:
        cell = row[column]
        return _is_missing(cell) or holds(cell)

    return judge


def _of_row(kind: str, given: _Arguments, types: _Types) -> RowPredicate:
    return _OF_ROWS[kind](given, types)


def _base(types: _Types, column: str) -> DataType:
    return unrestricted(inner(unrestricted(types[column])))


def _literal(value: LiteralValue, of: DataType) -> _Comparable:
    """Return a literal in the form of the cells of a type.

    Raises:
        NotPerRowError: The type has no such value.
    """
    try:
        found = _converted(value, of)
    except (ValueError, decimal.InvalidOperation):
        found = None
    if found is None:
        raise NotPerRowError(f"`{value!r}` is not a value of the type `{type_name(of)}`")
    return found


def _converted(value: LiteralValue, of: DataType) -> _Comparable | None:
    match of, value:
        case Bool(), bool(flag):
            return flag
        case Str(), str(text):
            return text
        case (Int() | Float() | Decimal(), bool()):
            return None
        case Int() | Float(), (int() | float()) as number:
            return None if math.isnan(number) else number
        case Decimal(scale=scale), int() | float() | str():
            exact = decimal.Decimal(str(value))
            return _EXACT.scaleb(exact, scale) if exact.is_finite() else None
        case Datetime(), str(text):
            instant = dt.datetime.fromisoformat(text)
            return to_micros(instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC))
        case Date(), str(text):
            return (dt.date.fromisoformat(text) - _EPOCH).days
        case _:
            return None


def _texts(of: DataType, given: str) -> None:
    if not isinstance(of, Str):
        raise NotPerRowError(
            f"{given} of the type `{type_name(of)}`; rows are judged as `str` only"
        )


def _null(_: _Arguments, __: DataType) -> _CellPredicate:
    return _is_missing


def _not_null(_: _Arguments, __: DataType) -> _CellPredicate:
    return lambda cell: not _is_missing(cell)


def _members(given: _Arguments, of: DataType) -> frozenset[_Comparable]:
    listed_values = given.get("value_set")
    if not isinstance(listed_values, tuple):
        raise NotPerRowError("it has no `value_set`")
    return frozenset(_literal(value, of) for value in listed_values if value is not None)


def _in_set(given: _Arguments, of: DataType) -> _CellPredicate:
    members = _members(given, of)
    return lambda cell: cell in members


def _not_in_set(given: _Arguments, of: DataType) -> _CellPredicate:
    members = _members(given, of)
    return lambda cell: cell not in members


def _between(given: _Arguments, of: DataType) -> _CellPredicate:
    if not isinstance(of, Int | Float | Decimal | Date | Datetime):
        raise NotPerRowError(f"values of the type `{type_name(of)}` have no bounds")
    low, high = given.get("min_value"), given.get("max_value")
    least = None if low is None else _literal(low, of)
    most = None if high is None else _literal(high, of)
    return _Bounds(least, most, bool(given.get("strict_min")), bool(given.get("strict_max"))).have


@attrs.frozen
class _Bounds:
    least: _Comparable | None
    most: _Comparable | None
    strict_min: bool = False
    strict_max: bool = False

    def have(self, cell: Cell) -> bool:
        # Both bounds were converted to the form of the cells.
        value, least, most = cell, self.least, self.most
        if least is not None and not (value > least if self.strict_min else value >= least):  # type: ignore[operator]
            return False
        return most is None or bool(value < most if self.strict_max else value <= most)  # type: ignore[operator]


def _lengths(given: _Arguments, of: DataType) -> _CellPredicate:
    _texts(of, "it measures values")
    bounds = _Bounds(_literal_bound(given, "min_value"), _literal_bound(given, "max_value"))
    return lambda cell: bounds.have(len(str(cell)))


def _literal_bound(given: _Arguments, name: str) -> _Comparable | None:
    bound = given.get(name)
    return None if bound is None else _literal(bound, Int())


def _length(given: _Arguments, of: DataType) -> _CellPredicate:
    _texts(of, "it measures values")
    length = _literal(given.get("value"), Int())
    return lambda cell: len(str(cell)) == length


def _patterns(given: _Arguments, of: DataType) -> tuple[str, ...]:
    _texts(of, "it matches values")
    many = given.get("regex_list", (given.get("regex"),))
    if not isinstance(many, tuple) or not many or not all(isinstance(one, str) for one in many):
        raise NotPerRowError("its patterns are not texts")
    return tuple(map(str, many))


def _matches(given: _Arguments, of: DataType) -> _CellPredicate:
    patterns = _patterns(given, of)
    combine = all if given.get("match_on") == "all" else any
    return lambda cell: combine(finds(pattern, str(cell)) for pattern in patterns)


def _matches_none(given: _Arguments, of: DataType) -> _CellPredicate:
    patterns = _patterns(given, of)
    return lambda cell: not any(finds(pattern, str(cell)) for pattern in patterns)


def _strftime(given: _Arguments, of: DataType) -> _CellPredicate:
    _texts(of, "it reads values")
    form = given.get("strftime_format")
    if not isinstance(form, str):
        raise NotPerRowError("its format is not a text")
    try:
        dt.datetime.strptime(_SAMPLE.strftime(form), form)  # noqa: DTZ007 (only whether it can be read)
    except (ValueError, re.error) as error:
        # `strptime` compiles the format to a pattern, and raises that compiler's errors.
        raise NotPerRowError(f"the format `{form}` cannot be read: {error}") from None

    def reads(cell: Cell) -> bool:
        try:
            dt.datetime.strptime(str(cell), form)  # noqa: DTZ007
        except ValueError:
            return False
        return True

    return reads


def _json(_: _Arguments, of: DataType) -> _CellPredicate:
    _texts(of, "it reads values")

    def reads(cell: Cell) -> bool:
        text = str(cell)
        if is_deeper(text.encode(errors="surrogatepass"), GREATEST_DEPTH):
            return False
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    return reads


_OF_CELLS: Final[Mapping[str, Callable[[_Arguments, DataType], _CellPredicate]]] = {
    "expect_column_values_to_be_null": _null,
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _not_in_set,
    "expect_column_values_to_be_between": _between,
    "expect_column_value_lengths_to_be_between": _lengths,
    "expect_column_value_lengths_to_equal": _length,
    "expect_column_values_to_match_regex": _matches,
    "expect_column_values_to_match_regex_list": _matches,
    "expect_column_values_to_not_match_regex": _matches_none,
    "expect_column_values_to_not_match_regex_list": _matches_none,
    "expect_column_values_to_match_strftime_format": _strftime,
    "expect_column_values_to_be_json_parseable": _json,
}
_ABOUT_NULLS: Final = frozenset(
    {"expect_column_values_to_be_null", "expect_column_values_to_not_be_null"}
)


def _pair(given: _Arguments, types: _Types) -> tuple[str, str, DataType]:
    """Return two columns that can be compared, and their type.

    Raises:
        NotPerRowError: Their types differ, or have no order.
    """
    left, right = str(given.get("column_A")), str(given.get("column_B"))
    one, other = _base(types, left), _base(types, right)
    are_numbers = isinstance(one, Int | Float) and isinstance(other, Int | Float)
    if not are_numbers and (one != other or not isinstance(one, _ORDERED)):
        raise NotPerRowError(
            f"`{left}` is `{type_name(one)}` and `{right}` is `{type_name(other)}`, which cannot "
            "be compared"
        )
    return left, right, one


_ORDERED: Final = (Int, Float, Bool, Str, Datetime, Date, Decimal)


def _ignoring(
    given: _Arguments, columns: Sequence[str], holds: RowPredicate, *, default: str
) -> RowPredicate:
    """Return a predicate that ignores rows in which all, or some, of the columns are missing."""
    match given.get("ignore_row_if", default):
        case "both_values_are_missing" | "all_values_are_missing":
            return lambda row: all(_is_missing(row[name]) for name in columns) or holds(row)
        case "either_value_is_missing" | "any_value_is_missing":
            return lambda row: any(_is_missing(row[name]) for name in columns) or holds(row)
        case _:
            return holds


def _equal(given: _Arguments, types: _Types) -> RowPredicate:
    left, right, _ = _pair(given, types)

    def holds(row: Mapping[str, Cell]) -> bool:
        # Nothing is equal to a missing value.
        return not _is_missing(row[left]) and row[left] == row[right]

    return _ignoring(given, (left, right), holds, default="both_values_are_missing")


def _greater(given: _Arguments, types: _Types) -> RowPredicate:
    left, right, of = _pair(given, types)
    if isinstance(of, Bool):
        raise NotPerRowError("values of the type `bool` have no order")
    or_equal = given.get("or_equal") is True

    def holds(row: Mapping[str, Cell]) -> bool:
        one, other = row[left], row[right]
        if _is_missing(one) or _is_missing(other):
            return False
        return bool(one >= other if or_equal else one > other)  # type: ignore[operator]

    return _ignoring(given, (left, right), holds, default="either_value_is_missing")


def _pairs(given: _Arguments, types: _Types) -> RowPredicate:
    columns = str(given.get("column_A")), str(given.get("column_B"))
    kinds = [_base(types, name) for name in columns]
    if not all(isinstance(of, Int | Float | Bool | Str) for of in kinds):
        names = listed([type_name(of) for of in kinds])
        raise NotPerRowError(f"the columns are {names}; pairs have numbers, texts or bools")
    pairs = given.get("value_pairs_set")
    if not isinstance(pairs, tuple):
        raise NotPerRowError("it has no `value_pairs_set`")
    members = frozenset(
        tuple(
            None if value is None else _literal(value, of)
            for value, of in zip(pair, kinds, strict=True)
        )
        for pair in pairs
        if isinstance(pair, tuple)
    )

    def holds(row: Mapping[str, Cell]) -> bool:
        found = tuple(None if _is_missing(row[name]) else row[name] for name in columns)
        return found in members

    return _ignoring(given, columns, holds, default="both_values_are_missing")


def _sum(given: _Arguments, types: _Types) -> RowPredicate:
    listed_columns = given.get("column_list")
    columns = tuple(map(str, listed_columns)) if isinstance(listed_columns, tuple) else ()
    total = _literal(given.get("sum_total"), Float())
    if wrong := [name for name in columns if not isinstance(_base(types, name), Int | Float)]:
        raise NotPerRowError(f"{listed(wrong)} cannot be added exactly: neither `int` nor `float`")

    def holds(row: Mapping[str, Cell]) -> bool:
        cells = [row[name] for name in columns]
        numbers = [cell for cell in cells if isinstance(cell, int | float)]
        missing = any(map(_is_missing, cells))
        return not missing and sum(numbers) == total

    return _ignoring(given, columns, holds, default="any_value_is_missing")


_OF_ROWS: Final[Mapping[str, Callable[[_Arguments, _Types], RowPredicate]]] = {
    "expect_column_pair_values_to_be_equal": _equal,
    "expect_column_pair_values_A_to_be_greater_than_B": _greater,
    "expect_column_pair_values_to_be_in_set": _pairs,
    "expect_multicolumn_sum_to_equal": _sum,
}
