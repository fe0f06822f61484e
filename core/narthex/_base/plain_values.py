"""Values of authors' programs as JSON, also those of pandas, which this module does not load."""

import base64
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import Final, TypeAlias

from narthex._base.records import Json
from narthex._base.times import render_instant, to_micros

JsonColumns: TypeAlias = dict[str, list[Json]]

_MISSING: Final = frozenset({"NAType", "NaTType"})
"""The types of pandas' missing values; the latter is a subclass of `datetime`."""


def values_of(series: Iterable[object]) -> list[Json]:
    """Return a series, or any list of values, as plain values."""
    return [plain_value(value) for value in series]


def plain_value(value: object) -> Json:  # noqa: C901 (one case a type)
    """Convert one value to JSON."""
    match value:
        case bool() | str():
            return value
        case float() if value != value:  # noqa: PLR0124 (only NaN differs from itself)
            return None
        case None | int() | float():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case _ if type(value).__name__ in _MISSING:
            return None
        case datetime():
            return render_instant(to_micros(value))
        case date():
            return value.isoformat()
        case PythonDecimal():
            return str(value)
        case dict():
            return {str(key): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return _plain_other(value)


def _plain_other(value: object) -> Json:
    for method in ("as_json", "tolist", "item"):  # structs, arrays, numpy's scalars
        convert = getattr(value, method, None)
        if callable(convert):
            return plain_value(convert())
    raise TypeError(f"a `{type(value).__name__}` cannot be sent")
