"""Map the rows of a result to values, such as those of `model.rows`, by the names of columns."""

from typing import TypeVar

import attrs
from sqlalchemy.engine import Result, RowMapping

_Row = TypeVar("_Row", bound=attrs.AttrsInstance)


def rows_of(kind: type[_Row], result: Result[tuple[object, ...]]) -> tuple[_Row, ...]:
    """Return all rows of a result."""
    return tuple(_map(kind, columns) for columns in result.mappings())


def row_of(kind: type[_Row], result: Result[tuple[object, ...]]) -> _Row:
    """Return the only row of a result."""
    return _map(kind, result.mappings().one())


def find_row(kind: type[_Row], result: Result[tuple[object, ...]]) -> _Row | None:
    """Return the only row of a result, or None if it is empty."""
    columns = result.mappings().one_or_none()
    return None if columns is None else _map(kind, columns)


def _map(kind: type[_Row], columns: RowMapping) -> _Row:
    values = {name: columns[name] for name in attrs.fields_dict(kind)}
    return kind(**values)
