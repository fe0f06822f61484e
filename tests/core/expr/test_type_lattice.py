"""The lattice of types: promotion is an order, and the common type is its least upper bound."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from narthex._expr.python.signature import convert
from narthex._expr.type_lattice import lca, promotable
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    StructField,
    base_type,
    inner,
    optional,
)

plain = st.sampled_from(
    [Int(), Float(), Bool(), Str(), Bytes(), Datetime(), Date(), Decimal(2), Decimal(4)]
)
restricted = st.sampled_from([Between(Int(), 0, 9), OneOf(Str(), ("a",)), Regex("[a-z]+")])
vectors = st.sampled_from([Embedding(2), Embedding(3)])


def struct_of(of: DataType, other: DataType) -> DataType:
    return Struct("", (StructField("x", of), StructField("y", other)))


types = st.recursive(
    plain | restricted | vectors,
    lambda inside: st.one_of(
        inside.map(optional),
        inside.map(List),
        inside.map(Map),
        st.builds(struct_of, inside, inside),
    ),
    max_leaves=4,
)


def wider(of: DataType) -> st.SearchStrategy[DataType]:
    """Return types that a type is promotable to."""
    match base_type(of):
        case Optional(of=inside):
            return wider(inside).map(optional)
        case List(of=item):
            found = wider(item).map(List)
        case Map(of=item):
            found = wider(item).map(Map)
        case Struct(fields=fields):
            found = st.tuples(*(wider(field.type) for field in fields)).map(
                lambda inside: struct_of(*inside)
            )
        case other:
            found = st.sampled_from([other, WIDER.get(type(other), other)])
    return found | found.map(optional)


WIDER: dict[type, DataType] = {Int: Float(), Embedding: List(Float())}
two_above = types.flatmap(lambda of: st.tuples(st.just(of), wider(of), wider(of)))
upwards = types.flatmap(
    lambda of: wider(of).flatmap(lambda above: st.tuples(st.just(of), st.just(above), wider(above)))
)

SMALL: list[DataType] = [Int(), Float(), Str(), Embedding(2)]
INSIDE = [*SMALL, *map(optional, SMALL)]
UNIVERSE: list[DataType] = [
    Null(),
    *INSIDE,
    *(wrap(of) for wrap in (List, Map) for of in INSIDE),
    *(optional(List(of)) for of in INSIDE),
    *(struct_of(one, other) for one in INSIDE[::2] for other in INSIDE[1::3]),
]
"""Enough types for all pairs and triples of them to be looked at."""


@given(types)
def test_a_type_promotes_to_itself(of: DataType) -> None:
    assert promotable(of, of)
    assert lca(of, of) == base_type(of)


@given(types)
def test_a_restriction_counts_as_what_it_restricts(of: DataType) -> None:
    assert promotable(of, base_type(of))
    assert promotable(base_type(of), of)


@given(upwards)
def test_promotion_is_transitive(three: tuple[DataType, DataType, DataType]) -> None:
    low, middle, high = three

    assert promotable(low, middle)
    assert promotable(middle, high)
    assert promotable(low, high)


def test_two_types_that_promote_to_each_other_are_equal_except_vectors() -> None:
    both = [
        (one, other)
        for one, other in itertools.combinations(UNIVERSE, 2)
        if promotable(one, other) and promotable(other, one)
    ]

    assert all("Embedding" in repr(one) + repr(other) for one, other in both)


@given(types)
def test_null_promotes_to_optionals_only(of: DataType) -> None:
    assert promotable(Null(), of) is isinstance(base_type(of), Optional)
    assert lca(Null(), of) == optional(base_type(of))


@given(types)
def test_a_type_promotes_to_its_optional_but_not_back(of: DataType) -> None:
    assert promotable(of, optional(of))
    assert promotable(optional(of), of) is isinstance(base_type(of), Optional)


def test_the_common_type_is_the_same_whichever_comes_first() -> None:
    for one, other in itertools.combinations(UNIVERSE, 2):
        assert lca(one, other) == lca(other, one)


def test_the_common_type_holds_both_and_is_the_least_that_does() -> None:
    for one, other in itertools.combinations(UNIVERSE, 2):
        common = lca(one, other)
        bounds = [of for of in UNIVERSE if promotable(one, of) and promotable(other, of)]

        assert common is not None or not bounds, (one, other, bounds)
        if common is not None:
            assert promotable(one, common)
            assert promotable(other, common)
            assert all(promotable(common, bound) for bound in bounds), (one, other, bounds)


@given(two_above)
def test_two_types_above_a_third_have_a_common_type_above_it(
    three: tuple[DataType, DataType, DataType],
) -> None:
    low, one, other = three

    common = lca(one, other)

    assert common is not None
    assert promotable(low, common)
    assert promotable(one, common)


def test_the_common_type_of_three_does_not_ask_for_grouping() -> None:
    for one, two, three in itertools.product(UNIVERSE, repeat=3):
        left, right = lca(one, two), lca(two, three)
        if left is not None and right is not None:
            assert lca(left, three) == lca(one, right)


def test_a_decimal_takes_an_int_in_arithmetic_and_never_unasked() -> None:
    assert lca(Int(), Decimal(2)) == Decimal(2)
    assert lca(Decimal(2), Decimal(4)) == Decimal(4)
    assert lca(Decimal(2), Float()) is None
    assert lca(List(Int()), List(Decimal(2))) is None
    assert not promotable(Int(), Decimal(2))
    assert not promotable(Decimal(2), Decimal(4))


def cells(of: DataType) -> st.SearchStrategy[Cell]:
    match of:
        case Optional():
            return st.none() | cells(of.of)
        case List():
            return st.lists(cells(of.of), max_size=2).map(tuple)
        case Embedding(size=size):
            return st.lists(st.floats(), min_size=size, max_size=size).map(tuple)
        case Map():
            return st.dictionaries(st.sampled_from("ab"), cells(of.of), max_size=2)
        case Struct():
            return st.fixed_dictionaries({f.name: cells(f.type) for f in of.fields})
        case _:
            return SCALARS.get(type(of), st.integers(-(2**40), 2**40))


SCALARS: dict[type, st.SearchStrategy[Cell]] = {
    Float: st.floats(),
    Bool: st.booleans(),
    Str: st.text(max_size=2),
    Bytes: st.binary(max_size=2),
}


def is_of(cell: Cell, of: DataType) -> bool:
    match inner(of), cell:
        case _, None:
            return isinstance(of, Optional)
        case Float(), _:
            return isinstance(cell, float)
        case (List() | Embedding(), tuple()):
            item = of.of if isinstance(of := inner(of), List) else Float()
            return all(is_of(member, item) for member in cell)
        case Map(of=item), dict():
            return all(is_of(member, item) for member in cell.values())
        case Struct(fields=fields), dict():
            return all(is_of(cell[field.name], field.type) for field in fields)
        case _:
            return not isinstance(cell, float | tuple | dict)


@given(two_above, st.data())
def test_a_value_becomes_one_of_the_type_that_it_is_promoted_to(
    three: tuple[DataType, DataType, DataType], data: st.DataObject
) -> None:
    low, above = base_type(three[0]), three[1]
    cell = data.draw(cells(low))

    assert is_of(convert(cell, low, above), above)
