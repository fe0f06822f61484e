"""Types of columns and their cells: few values, so that keys meet, ties happen, nulls abound."""

import functools

from hypothesis import strategies as st

from narthex._ir import (
    Bool,
    Cell,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    Str,
)

SECOND = 1_000_000

KEY_TYPES: tuple[DataType, ...] = (Int(), Str(), Bool(), Date())
VALUE_TYPES: tuple[DataType, ...] = (
    Int(),
    Float(),
    Str(),
    Bool(),
    Datetime(),
    Decimal(2),
    Optional(Int()),
    Optional(Float()),
    Optional(Str()),
    Optional(Decimal(1)),
    List(Int()),
    Optional(List(Str())),
    List(Optional(Int())),
)

LARGE = (2**62, -(2**62))
"""Ints of which two add up to no int, or nearly; other arithmetic of the generator is possible."""
LARGE_DECIMALS = (6 * 10**27, -6 * 10**27)


@functools.cache
def instants() -> st.SearchStrategy[int]:
    """Return instants around the ends of windows: at them, just before, just after."""
    return st.builds(
        lambda seconds, nudge: seconds * SECOND + nudge,
        st.integers(-10, 60) | st.sampled_from([0, 5, 10, 15, 20, 30, 40, 60]),
        st.sampled_from([0, 0, 0, 1, -1]),
    )


@functools.cache
def cells(of: DataType) -> st.SearchStrategy[Cell]:
    """Return cells of a type."""
    match of:
        case Optional(of=inner):
            return st.none() | cells(inner)
        case List(of=item):
            return st.lists(cells(item), max_size=3).map(tuple)
        case Int():
            return st.integers(-2, 3) | st.sampled_from([0, 1, 2, *LARGE])
        case Float():
            return st.sampled_from([0.0, 0.1, 0.5, -1.5, 2.0, 1e9, -3.25])
        case Decimal():
            return st.integers(-150, 250) | st.sampled_from([0, 50, 100, *LARGE_DECIMALS])
        case _:
            return _named(of)


def _named(of: DataType) -> st.SearchStrategy[Cell]:
    match of:
        case Str():
            return st.sampled_from(["a", "b", "c", ""])
        case Bool():
            return st.booleans()
        case Datetime():
            return instants()
        case Date():
            return st.integers(0, 2)
        case _:
            raise TypeError(f"no cells of {of!r} are made")
