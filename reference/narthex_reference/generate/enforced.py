"""Enforced expectations of generated datasets.

Rows of computed datasets break about every third one. The facts of a source meet all of them,
because they are in its log already; `breaking_cell` is a cell that none of them has.
"""

from collections.abc import Mapping, Sequence

import attrs
from hypothesis import strategies as st

from narthex._ir import (
    Action,
    Aggregate,
    Column,
    Dataset,
    DataType,
    Expectation,
    Float,
    Int,
    LiteralValue,
    Optional,
    Str,
    inner,
)
from narthex_reference.generate.cells import LARGE

_ENFORCED = 4
"""Every fourth dataset that can have enforced expectations has some."""
_MOST = 2


@st.composite
def with_enforced(draw: st.DrawFn, dataset: Dataset) -> Dataset:
    """Return a computed dataset, sometimes with enforced expectations about its columns."""
    columns = (*dataset.schema.keys, *dataset.schema.values)
    drawable = [found for column in columns for found in _about(column, columns)]
    ends_in_aggregate = isinstance(dataset.pipelines[-1].terminal, Aggregate)
    if not drawable or ends_in_aggregate or draw(st.integers(1, _ENFORCED)) > 1:
        return dataset
    chosen = draw(st.lists(st.sampled_from(drawable), min_size=1, max_size=_MOST, unique=True))
    enforced = tuple(
        attrs.evolve(one, action=draw(st.sampled_from([Action.QUARANTINE, Action.DROP])))
        for one in chosen
    )
    return attrs.evolve(dataset, expectations=enforced)


@st.composite
def with_bounds(draw: st.DrawFn, dataset: Dataset) -> Dataset:
    """Return the dataset of a source, sometimes with an enforced bound of one of its columns."""
    fitting = [one for one in dataset.schema.values if type(inner(one.type)) in _BOUNDS]
    if not fitting or draw(st.booleans()):
        return dataset
    column = draw(st.sampled_from(fitting))
    kind, greatest, _ = _BOUNDS[type(inner(column.type))]
    bounded = Expectation(
        kind=kind,
        arguments=(("column", column.name), ("max_value", greatest)),
        action=Action.QUARANTINE,
    )
    return attrs.evolve(dataset, expectations=(bounded,))


def breaking_cell(of: DataType) -> int | float | str:
    """Return a value that breaks the bounds of a source's column of this type."""
    return _BOUNDS[type(inner(of))][2]


_BOUNDS: Mapping[type[DataType], tuple[str, int | float, int | float | str]] = {
    Int: ("expect_column_values_to_be_between", max(LARGE), max(LARGE) + 1),
    Float: ("expect_column_values_to_be_between", 1e9, 2e9),
    Str: ("expect_column_value_lengths_to_be_between", 1, "longer than one"),
}
"""The kind of expectation, a bound that all generated cells meet, and a value that none does."""


def _about(column: Column, columns: Sequence[Column]) -> list[Expectation]:
    name, of = column.name, inner(column.type)
    found: list[Expectation] = []
    if isinstance(column.type, Optional):
        found.append(_expected("expect_column_values_to_not_be_null", column=name))
    if isinstance(of, Int | Float):
        between = "expect_column_values_to_be_between"
        found.append(_expected(between, column=name, min_value=0))
        found.append(_expected(between, column=name, max_value=1, strict_max=True))
        found += [
            _expected(
                "expect_column_pair_values_A_to_be_greater_than_B",
                column_A=name,
                column_B=other.name,
                or_equal=True,
                ignore_row_if="neither",
            )
            for other in columns
            if other != column and isinstance(inner(other.type), Int | Float)
        ][:1]
    if isinstance(of, Str):
        in_set = "expect_column_values_to_be_in_set"
        found.append(_expected(in_set, column=name, value_set=("a", "b")))
        found.append(_expected("expect_column_values_to_match_regex", column=name, regex="^[a-b]$"))
        found.append(_expected("expect_column_value_lengths_to_equal", column=name, value=1))
    return found


def _expected(kind: str, **arguments: LiteralValue) -> Expectation:
    return Expectation(kind=kind, arguments=tuple(arguments.items()))
