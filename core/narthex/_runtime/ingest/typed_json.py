# mypy: disable-error-code="explicit-any"
"""JSON objects whose values have the declared types, read by a compiled decoder.

`msgspec` decodes and checks a whole object in C. It is used where its result cannot differ from
that of `json` and `narthex._formats.coercion`; everything else is left to them. A property test
compares both.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TypeAlias

import attrs
import msgspec

from narthex._base.json_depth import GREATEST_DEPTH, is_deeper
from narthex._formats.coercion import MistypedError, coercion
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Bool, DataType, Float, Int, Optional, Str

_GREATEST_BYTES: Final = 4000
"""`json` refuses a number of more than 4,300 digits, also in a column that is not read."""

_Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_EXACT: Final[dict[type, object]] = {Int: _Int64, Float: float, Str: str, Bool: bool}
"""The types whose JSON values are cells already."""

_Convert: TypeAlias = Callable[[object], Cell]


@attrs.frozen
class TypedJson:
    """Reads the cells of one schema from JSON text."""

    _names: tuple[str, ...]
    _conversions: tuple[tuple[str, _Convert], ...]
    _decoder: "msgspec.json.Decoder[msgspec.Struct]"

    @classmethod
    def of(cls, columns: Sequence[Column]) -> "TypedJson":
        """Prepare the decoder of rows with these columns."""
        fields = [_field(f"f{place}", column.type) for place, column in enumerate(columns)]
        names = {f"f{place}": column.name for place, column in enumerate(columns)}
        row = msgspec.defstruct("Row", fields, rename=names, gc=False, kw_only=True)
        return cls(
            tuple(column.name for column in columns),
            tuple(
                (column.name, coercion(column.type))
                for column in columns
                if _exact_type(column.type) is None
            ),
            msgspec.json.Decoder(row),
        )

    def read(self, text: bytes) -> dict[str, Cell] | None:
        """Return the cells of a row by name; None if the text must be read the general way."""
        if len(text) > _GREATEST_BYTES or is_deeper(text, GREATEST_DEPTH):
            return None
        try:
            if not text.isascii():
                text.decode()  # the decoder does not check the text of columns that it skips
            row = self._decoder.decode(text)
            cells = dict(zip(self._names, msgspec.structs.astuple(row), strict=True))
            for name, to_cell in self._conversions:
                cells[name] = to_cell(cells[name])
        except (msgspec.MsgspecError, UnicodeDecodeError, MistypedError):
            return None
        return cells


def _field(name: str, of: DataType) -> tuple[str, Any] | tuple[str, Any, None]:
    exact = _exact_type(of)
    # A missing value is null: of an optional column a cell, of others a mistake.
    if exact is None:
        return name, Any, None
    return (name, exact | None, None) if isinstance(of, Optional) else (name, exact)


def _exact_type(of: DataType) -> Any | None:
    return _EXACT.get(type(of.of if isinstance(of, Optional) else of))
