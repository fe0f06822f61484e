"""One more step of a pipeline, of any kind that its rows allow."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs
from hypothesis import strategies as st

from narthex._analysis.schemas import output_schema
from narthex._ir import (
    Assign,
    AssignCode,
    Assignment,
    Change,
    Changelog,
    Column,
    DatasetRef,
    DatasetSchemaInfo,
    DataType,
    Dedup,
    Drop,
    DropNull,
    Explode,
    Filter,
    First,
    Float,
    Join,
    JoinHow,
    Latest,
    List,
    NodeSchema,
    Operator,
    Optional,
    Rename,
    Select,
    Session,
    Transform,
    Tumbling,
    Union,
    inner,
    unrestricted,
)
from narthex_reference.generate import code
from narthex_reference.generate.cells import SECOND
from narthex_reference.generate.expressions import predicates, values
from narthex_reference.generate.groups import aggregates, group_keys
from narthex_reference.generate.growth import MOST, growth


@attrs.frozen
class InsertionPoint:
    """The place at which a step would be added.

    Attributes:
        last: The last step so far.
        schema: The schema of its result.
        inputs: The datasets that may be read.
        growth: The approximate number of rows of each dataset per sent row.
        name: An unused column name.
    """

    last: Operator
    schema: NodeSchema
    inputs: Mapping[str, DatasetSchemaInfo]
    growth: Mapping[str, int]
    name: str

    def allows(self, step: Operator) -> bool:
        """Whether a step is correct here, and does not create too many rows."""
        if growth(step, self.growth) > MOST:
            return False
        return not output_schema(step, self.inputs).errors


TRIES: Final = 6
_STRIDE: Final = 7

Draw: TypeAlias = st.DrawFn
Maker: TypeAlias = Callable[[Draw, InsertionPoint], "Operator | None"]


@st.composite
def steps(draw: Draw, place: InsertionPoint) -> Operator:
    """Return the pipeline with one more step; if a kind does not fit, the next one is tried."""
    begin = draw(st.integers(0, len(_MAKERS) - 1))
    for at in range(TRIES):
        made = _MAKERS[(begin + at * _STRIDE) % len(_MAKERS)](draw, place)
        if made is not None and place.allows(made):
            return made
    return place.last


def _pick(draw: Draw, names: list[str], *, least: int = 1) -> tuple[str, ...]:
    chosen = draw(st.sets(st.sampled_from(names), min_size=least)) if names else set()
    return tuple(name for name in names if name in chosen)


def _value_names(place: InsertionPoint) -> list[str]:
    return [column.name for column in place.schema.values]


def _is_exact(column: Column) -> bool:
    """Whether all engines give it to the last digit: not a float that steps have computed.

    Sums and deviations of floats are equal within a tolerance, which no identity has.
    """
    of = inner(column.type)
    item = inner(of.of) if isinstance(of, List) else of
    return not isinstance(unrestricted(item), Float) or column.name.startswith("s")


def _filter(draw: Draw, place: InsertionPoint) -> Operator | None:
    found = predicates(place.schema.columns)
    return Filter(place.last, draw(st.sampled_from(found))) if found else None


def _filter_code(draw: Draw, place: InsertionPoint) -> Operator | None:
    columns = place.schema.columns
    found = code.predicates(columns)
    if not found:
        return None
    # A predicate may read any column, so the function leaves the others alone.
    text = draw(st.sampled_from(found))
    made = code.series_of(draw, text, reads="", others=(), fails=code.failures(columns))
    return Filter(place.last, made)


def _assign(draw: Draw, place: InsertionPoint) -> Operator | None:
    node, of = draw(st.sampled_from(values(place.schema.columns)))
    into = draw(st.sampled_from([place.name, *_value_names(place)]))
    # Where an expression has no value but the column requires one, the row is dropped.
    return Assign(place.last, (Assignment(into, of, node),))


def _assign_code(draw: Draw, place: InsertionPoint) -> Operator | None:
    columns = place.schema.columns
    found = code.computed_columns(columns)
    if not found:
        return None
    made = draw(st.sampled_from(found))
    into = draw(st.sampled_from([place.name, made.reads, *_value_names(place)]))
    text = code.series_of(
        draw, made.text, reads=made.reads, others=list(columns), fails=code.failures(columns)
    )
    return AssignCode(place.last, Column(into, made.type), text)


def _transform(draw: Draw, place: InsertionPoint) -> Operator | None:
    columns = place.schema.columns
    found = code.computed_columns(columns)
    if not found:
        return None
    made = draw(st.sampled_from(found))
    fixed = [column.name for column in place.schema.keys] + [place.schema.timestamp]
    into = draw(st.sampled_from([place.name, *_value_names(place)]))
    chosen = _pick(draw, [name for name in _value_names(place) if name != into])
    kept = tuple(column for column in place.schema.values if column.name in chosen)
    text = code.frame_of(draw, made, into=into, kept=[*fixed, *chosen], columns=columns)
    return Transform(place.last, (*kept, Column(into, made.type)), text)


def _select(draw: Draw, place: InsertionPoint) -> Operator | None:
    keys = tuple(column.name for column in place.schema.keys)
    return Select(place.last, (*keys, *_pick(draw, _value_names(place))))


def _drop(draw: Draw, place: InsertionPoint) -> Operator | None:
    names = _value_names(place)
    return Drop(place.last, _pick(draw, names)) if len(names) > 1 else None


def _rename(draw: Draw, place: InsertionPoint) -> Operator | None:
    names = [name for name in place.schema.columns if name != place.schema.timestamp]
    return Rename(place.last, ((draw(st.sampled_from(names)), place.name),)) if names else None


def _drop_null(draw: Draw, place: InsertionPoint) -> Operator | None:
    names = [column.name for column in place.schema.values if isinstance(column.type, Optional)]
    return DropNull(place.last, _pick(draw, names)) if names else None


def _explode(draw: Draw, place: InsertionPoint) -> Operator | None:
    names = [c.name for c in place.schema.values if isinstance(inner(c.type), List)]
    # Lists of different columns often have different lengths: the step fails on such rows.
    return Explode(place.last, _pick(draw, names)) if names else None


def _union(draw: Draw, place: InsertionPoint) -> Operator | None:
    del draw
    other = place.last.input if isinstance(place.last, Filter | Dedup) else place.last
    return Union(place.last, other)


def _dedup(draw: Draw, place: InsertionPoint) -> Operator | None:
    windows = [None, Tumbling(10 * SECOND), Session(5 * SECOND)]
    by = _pick(draw, [one.name for one in place.schema.values if _is_exact(one)])
    return Dedup(place.last, by, draw(st.sampled_from(windows))) if by else None


def _changelog(draw: Draw, place: InsertionPoint) -> Operator | None:
    return Changelog(place.last, place.name, draw(st.sampled_from(list(Change))))


def _first(draw: Draw, place: InsertionPoint) -> Operator | None:
    by = draw(group_keys(place.schema))
    return First(place.last, by) if by else None


def _latest(draw: Draw, place: InsertionPoint) -> Operator | None:
    by = draw(group_keys(place.schema))
    return Latest(place.last, by) if by else None


def _aggregate(draw: Draw, place: InsertionPoint) -> Operator | None:
    return draw(aggregates(place.last, place.schema, prefix=place.name))


def _join(draw: Draw, place: InsertionPoint) -> Operator | None:
    rights = [one for one in place.inputs.values() if one.schema.keys and not one.terminal]
    if not rights:
        return None
    right = draw(st.sampled_from(rights))
    on: list[tuple[str, str]] = []
    for key in right.schema.keys:
        fits = [name for name, of in place.schema.columns.items() if joins(of, key.type)]
        if not fits:
            return None
        on.append((draw(st.sampled_from(fits)), key.name))
    low = draw(st.sampled_from([None, 0, 5 * SECOND]))
    high = draw(st.sampled_from([0, 0, 3 * SECOND]))
    known = place.schema.columns
    fields = [column.name for column in right.schema.values if column.name not in known]
    how = draw(st.sampled_from(list(JoinHow)))
    taken = _pick(draw, fields) if fields else ()
    return Join(place.last, DatasetRef(right.name), how, tuple(on), low, high, taken)


def joins(left: DataType, right: DataType) -> bool:
    """Whether a join may compare columns of these types."""
    return unrestricted(inner(left)) == unrestricted(right)


_OFTEN: Final[Mapping[Maker, int]] = {
    _aggregate: 7,
    _join: 7,
    _latest: 4,
    _first: 3,
    _changelog: 3,
    _explode: 7,
    _dedup: 3,
    _union: 2,
    _assign: 2,
    _filter: 2,
    _filter_code: 2,
    _assign_code: 4,
    _transform: 2,
    _select: 2,
    _drop: 2,
    _rename: 2,
    _drop_null: 4,
}
"""The weight of each kind; kinds that rarely fit, or often fail, are tried more often."""

_MAKERS: Final = tuple(make for make, often in _OFTEN.items() for _ in range(often))

EXPRESSION_STEPS: Final = (_drop_null, _filter, _assign, _rename, _drop, _select)
"""Steps of expressions on one row."""

CODE_STEPS: Final = (_assign_code, _filter_code)
"""Steps of author code on one row."""

JOIN, LATEST, AGGREGATE = _join, _latest, _aggregate
