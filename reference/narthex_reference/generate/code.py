"""Functions of authors: source text as it travels, of the columns of a step."""

import hashlib
from collections.abc import Mapping, Sequence

from narthex._ir import DataType, Int, Optional, UserCode, inner


def user_code(source: str) -> UserCode:
    """Wrap source text that defines `step` as code."""
    return UserCode(
        entry="step", source=source, tree=hashlib.sha256(source.encode()).digest(), python="3.11"
    )


def numbers_of(columns: Mapping[str, DataType]) -> tuple[str, ...]:
    """Return the columns that the functions here can take: integers."""
    return tuple(name for name, of in columns.items() if inner(of) == Int())


def is_positive(column: str) -> UserCode:
    """Return a predicate that is null where the column is."""
    return user_code(f"def step(df):\n    return df[{column!r}] > 0\n")


def plus_ten(column: str) -> UserCode:
    """Return a function of a column, null where the column is."""
    return user_code(f"def step(df):\n    return df[{column!r}] + 10\n")


def negated(column: str, *, into: str, kept: Sequence[str]) -> UserCode:
    """Return a function of a frame that keeps some columns and adds one."""
    names = [*kept, into]
    return user_code(
        f"def step(df):\n    df[{into!r}] = -df[{column!r}]\n    return df[{names!r}]\n"
    )


def result_type(column: DataType) -> DataType:
    """Return the type of what the functions make of a column."""
    return Optional(Int()) if isinstance(column, Optional) else Int()
