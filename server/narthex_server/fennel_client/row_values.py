"""Rows of Fennel's client: it renders days and bytes by pandas, which loses what they are.

A day arrives as the milliseconds of its midnight, bytes as their UTF-8 text.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Final

from narthex._base import Json
from narthex._ir import DataType, inner, types

DAY_MS: Final = 86_400_000


def rendered_as_ours(
    data: Mapping[str, list[Json]], raw: Mapping[str, DataType]
) -> dict[str, list[Json]]:
    """Return columns in which days are days since 1970, and bytes base64.

    Args:
        data: The columns as the client sent them.
        raw: The types of the raw columns whose types are known.
    """
    return {name: list(map(_renderer(raw.get(name)), column)) for name, column in data.items()}


def _renderer(of: DataType | None) -> Callable[[Json], Json]:
    match None if of is None else inner(of):
        case types.Date():
            return _day
        case types.Bytes():
            return _base64
        case _:
            return _unchanged


def _day(value: Json) -> Json:
    is_midnight = isinstance(value, int) and not isinstance(value, bool) and value % DAY_MS == 0
    return value // DAY_MS if is_midnight else value  # type: ignore[operator]


def _base64(value: Json) -> Json:
    return base64.b64encode(value.encode()).decode() if isinstance(value, str) else value


def _unchanged(value: Json) -> Json:
    return value
