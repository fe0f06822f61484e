"""Pipelines of row steps alone, which jobs run without state, with many kinds of steps in each.

A pipeline of any steps nearly always has one that needs state. So few jobs without state would be
drawn, and hardly any with the rarer steps.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
from hypothesis import strategies as st

from narthex._analysis.schemas import output_schema
from narthex._ir import Aggregate, DatasetSchemaInfo, Emit, ExpDecaySum, NodeSchema, Operator
from narthex_reference.generate.cells import SECOND
from narthex_reference.generate.steps import (
    AGGREGATE,
    CODE_STEPS,
    EXPRESSION_STEPS,
    JOIN,
    LATEST,
    InsertionPoint,
    Maker,
    joins,
)


class RowPipeline(enum.Enum):
    """The steps of a pipeline without state.

    Attributes:
        EXPRESSIONS: Expressions only.
        LOOKUPS: A join or author code, too.
    """

    EXPRESSIONS = "expressions"
    LOOKUPS = "lookups"


_Makers: TypeAlias = Sequence[Maker]
_TRIES = 6


@st.composite
def row_pipelines(draw: st.DrawFn, place: InsertionPoint, kind: RowPipeline) -> Operator:
    """Return a pipeline of steps that each fit: all kinds of row steps, and perhaps an end."""
    makers = draw(_EXPRESSIONS if kind is RowPipeline.EXPRESSIONS else _LOOKUPS)
    for at, make in enumerate(makers):
        made = make(draw, attrs.evolve(place, name=f"{place.name}c{at}"))
        if made is not None and place.allows(made):
            place = attrs.evolve(place, last=made, schema=output_schema(made, place.inputs))
    return place.last


def joinable(
    left: NodeSchema, inputs: Mapping[str, DatasetSchemaInfo]
) -> Mapping[str, DatasetSchemaInfo]:
    """Return the keyed datasets whose keys all have the type of a column of the rows."""
    return {
        name: info
        for name, info in inputs.items()
        if info.schema.keys
        and all(
            any(joins(column, key.type) for column in left.columns.values())
            for key in info.schema.keys
        )
    }


def _shuffled(makers: _Makers, least: int) -> st.SearchStrategy[_Makers]:
    return st.lists(st.sampled_from(makers), min_size=least, max_size=len(makers), unique=True)


def _sequence(*parts: st.SearchStrategy[_Makers]) -> st.SearchStrategy[_Makers]:
    return st.tuples(*parts).map(lambda found: [make for part in found for make in part])


def _aggregate(draw: st.DrawFn, place: InsertionPoint) -> Operator | None:
    """Return an aggregate without state: over windows of its own, along the event time.

    Every second one has a decayed sum where it fits, as few columns and windows allow one.
    """
    is_decayed = draw(st.booleans())
    for _ in range(_TRIES):
        made = AGGREGATE(draw, place)
        if isinstance(made, Aggregate) and made.window is None and made.along is None:
            decayed = _decayed(made, place) if is_decayed else []
            return draw(st.sampled_from(decayed)) if decayed else made
    return None


def _decayed(aggregate: Aggregate, place: InsertionPoint) -> list[Operator]:
    """Return the aggregate with a decayed sum in place of its first spec, one for each column."""
    first, *others = aggregate.specs
    sums = (
        ExpDecaySum(into=first.into, window=first.window, of=of.name, half_life_us=7 * SECOND)
        for of in place.schema.values
    )
    found = (attrs.evolve(aggregate, specs=(one, *others), emit=Emit.EAGER) for one in sums)
    return [one for one in found if place.allows(one)]


def _join(draw: st.DrawFn, place: InsertionPoint) -> Operator | None:
    """Return a join with one of the datasets, if any of those that are tried fits."""
    fitting = joinable(place.schema, place.inputs)
    for _ in range(_TRIES):
        made = JOIN(draw, attrs.evolve(place, inputs=fitting))
        if made is not None and place.allows(made):
            return made
    return None


_NOTHING: _Makers = ()

# A stateless job leaves no row out after `latest`, and a stage leaves none out before it.
_EXPRESSIONS = _sequence(
    _shuffled(EXPRESSION_STEPS, 4),
    st.sampled_from([_NOTHING, *[(LATEST,)] * 2, *[(_aggregate,)] * 2]),
)
_ROWS = _sequence(_shuffled(CODE_STEPS, 1), _shuffled(EXPRESSION_STEPS, 4))
_LOOKED_UP = _sequence(st.just((_join,)), _ROWS, st.sampled_from([_NOTHING, *[(_aggregate,)] * 4]))
_LOOKUPS = st.one_of(_sequence(st.just((LATEST,)), _ROWS), *[_LOOKED_UP] * 3)
