"""The check of the rows that an offline query is to answer for, before it is queued."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from narthex._formats.coercion import MistypedError, coercion
from narthex._ir.types import DataType, Datetime

MOST_SHOWN: Final = 50
"""The greatest number of problems that a report lists."""


def spine_problems(
    columns: Mapping[str, Sequence[object]],
    inputs: Sequence[str],
    *,
    timestamp_column: str,
    types: Mapping[str, DataType],
) -> list[str]:
    """Return everything that keeps a spine from being answered; empty for a sound one.

    Args:
        columns: The columns of the spine, as plain values.
        inputs: The features that it must have.
        timestamp_column: The column that must have the instant of each row.
        types: The types of features by full name; values of other inputs are not checked.
    """
    has = ", ".join(f"`{name}`" for name in columns) or "none"
    needed = dict.fromkeys([*inputs, timestamp_column])
    problems = [
        f"there is no column `{name}`; there are {has}" for name in needed if name not in columns
    ]
    rows = {name: len(values) for name, values in columns.items()}
    if len(set(rows.values())) > 1:
        told = ", ".join(f"`{name}` {count}" for name, count in rows.items())
        problems.append(f"columns differ in their number of rows: {told}")
    if not any(rows.values()):
        problems.append("there are no rows to answer for")
    known = {name: types[name] for name in inputs if name in types}
    for name, of in {**known, timestamp_column: Datetime()}.items():
        problems += _mistyped(name, columns.get(name, ()), of)
    return problems


def _mistyped(name: str, values: Sequence[object], of: DataType) -> Iterator[str]:
    to_cell = coercion(of)
    for row, value in enumerate(values):
        try:
            to_cell(value)
        except MistypedError as error:
            yield f"row {row}, `{name}`: {error}"


def report_of(problems: Sequence[str]) -> str:
    """Return problems of a spine as one text, a line each; the first ones, and how many more."""
    more = len(problems) - MOST_SHOWN
    lines = [*problems[:MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n".join([f"the spine has {count}", *lines])
