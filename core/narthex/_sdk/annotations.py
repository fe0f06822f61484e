"""Annotations of fields and features, and the types that they mean."""

import types as python_types
import typing
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import Final, TypeAlias

import attrs
from typing_extensions import override

from narthex._base.patterns import ADVICE, PatternError, check_pattern
from narthex._ir import types
from narthex._ir.types import DataType
from narthex.errors import DefinitionError, RestrictionInvalid, TypeNotSupported

STRUCT_ATTRIBUTE: Final = "__narthex_struct__"
"""The attribute of a `@struct` class that contains its type."""

Annotation: TypeAlias = object
"""Anything that an author can write after the colon of a field."""

MAX_SCALE: Final = 28

_PLAIN: dict[object, DataType] = {
    int: types.Int(),
    float: types.Float(),
    bool: types.Bool(),
    str: types.Str(),
    bytes: types.Bytes(),
    datetime: types.Datetime(),
    date: types.Date(),
}
_SUPPORTED = (
    "`int`, `float`, `bool`, `str`, `bytes`, `datetime`, `date`, `Decimal[n]`, `List[T]`, "
    "`Dict[str, T]`, `Optional[T]`, `Embedding[n]`, `Window` or a `@struct` class"
)


@attrs.frozen
class Written:
    """A type written as a call or a subscript, such as `between(int, 0, 9)` or `Decimal[2]`.

    It may be wrong; `parse_annotation` reports that, where the field's position is known.
    """

    form: str
    parts: tuple[object, ...]

    def __or__(self, other: object) -> object:
        """Make `between(int, 0, 9) | None` an Optional."""
        return typing.Union[self, other]  # noqa: UP007 (this is how `|` is made)

    def __ror__(self, other: object) -> object:
        """Make `None | between(int, 0, 9)` an Optional."""
        return typing.Union[other, self]  # noqa: UP007

    @override
    def __repr__(self) -> str:
        return f"{self.form}({', '.join(name_of(part) for part in self.parts)})"


class Decimal:
    """A decimal number of 28 digits: `Decimal[2]` has two of them after the point."""

    def __class_getitem__(cls, scale: object) -> Written:
        """Return the annotation of that scale."""
        return Written("Decimal", (scale,))


class Embedding:
    """A vector of floats: `Embedding[128]` has 128 of them; only its type, never a value."""

    def __init__(self, *_: object) -> None:
        raise TypeError("`Embedding` is a type; a value of it is a list of floats")

    def __class_getitem__(cls, size: object) -> Written:
        """Return the annotation of that size."""
        return Written("Embedding", (size,))


def between(
    dtype: type,
    min: float,
    max: float,
    strict_min: bool = False,
    strict_max: bool = False,
) -> Written:
    """A number within bounds; inclusive unless `strict_min` or `strict_max`."""
    return Written("between", (dtype, min, max, strict_min, strict_max))


def oneof(dtype: type, options: list[int] | list[str]) -> Written:
    """One of the listed values."""
    return Written("oneof", (dtype, tuple(options)))


def regex(pattern: str) -> Written:
    """Text that the pattern matches as a whole."""
    return Written("regex", (pattern,))


def name_of(annotation: object) -> str:
    """Render an annotation in the form that its author would write."""
    if isinstance(annotation, type):
        return annotation.__name__
    return repr(annotation).replace("typing.", "")


def parse_annotation(annotation: Annotation) -> DataType:
    """Return the type that an annotation means.

    Raises:
        TypeNotSupported: No column can have it.
        RestrictionInvalid: A bound, an option or a pattern does not fit.
    """
    if isinstance(annotation, Written):
        return _parse_written(annotation)
    if isinstance(annotation, types.DataType):
        return annotation
    if typing.get_origin(annotation) is typing.Annotated:
        return _parse_annotated(*typing.get_args(annotation))
    struct = getattr(annotation, STRUCT_ATTRIBUTE, None)
    if isinstance(struct, types.Struct):
        return struct
    if isinstance(annotation, type) and annotation in _PLAIN:
        return _PLAIN[annotation]
    return _parse_generic(annotation)


def _parse_annotated(shown: Annotation, *said: object) -> DataType:
    """Return the platform's type; the argument before it is for type checkers."""
    ours = [one for one in said if isinstance(one, Written | types.DataType)]
    return parse_annotation(ours[0] if ours else shown)


def _parse_generic(annotation: Annotation) -> DataType:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and len(arguments) == 1:
        return types.List(parse_annotation(arguments[0]))
    if origin is dict and len(arguments) == 2:  # noqa: PLR2004 (key and value)
        if arguments[0] is not str:
            raise TypeNotSupported(
                f"`{name_of(annotation)}` has keys of `{name_of(arguments[0])}`; "
                "keys of a dict are `str`"
            )
        return types.Map(parse_annotation(arguments[1]))
    if origin in {typing.Union, python_types.UnionType}:
        return _parse_union(annotation, arguments)
    raise TypeNotSupported(
        f"`{name_of(annotation)}` is not a type of a column", hint=_hint(annotation)
    )


def _hint(annotation: Annotation) -> str:
    if annotation is PythonDecimal:
        return "import `Decimal` from `narthex.dtypes` and give its scale, such as `Decimal[2]`"
    if annotation is Decimal or annotation is Embedding:
        return f"give its size, such as `{name_of(annotation)}[2]`"
    return f"use {_SUPPORTED}"


def _parse_union(annotation: Annotation, arguments: tuple[object, ...]) -> DataType:
    members = [argument for argument in arguments if argument is not type(None)]
    if len(members) != 1 or len(arguments) == 1:
        raise TypeNotSupported(
            f"`{name_of(annotation)}` is a union of several types; a column has one",
            hint="write `Optional[T]` for a value that may be missing",
        )
    return types.optional(parse_annotation(members[0]))


def _parse_written(written: Written) -> DataType:
    match written.form, written.parts:
        case "Decimal", (scale,):
            return _parse_decimal(scale)
        case "Embedding", (size,):
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise TypeNotSupported(f"`{written!r}` has no length; expected a whole number")
            return types.Embedding(size)
        case "between", (dtype, least, greatest, bool(strict_min), bool(strict_max)):
            return _parse_between(dtype, least, greatest, strict_min, strict_max)
        case "oneof", (dtype, tuple(options)):
            return _parse_oneof(dtype, options)
        case "regex", (str(pattern),):
            return _parse_regex(pattern)
        case _:
            raise RestrictionInvalid(f"`{written!r}` has parts that are not allowed there")


def _parse_regex(pattern: str) -> DataType:
    try:
        check_pattern(pattern)
    except PatternError as error:
        raise RestrictionInvalid(
            f"the pattern `{pattern}` of `regex` cannot be used: {error}",
            hint=ADVICE,
        ) from None
    return types.Regex(pattern)


def _parse_decimal(scale: object) -> DataType:
    if not isinstance(scale, int) or isinstance(scale, bool) or not 0 <= scale <= MAX_SCALE:
        raise TypeNotSupported(
            f"`Decimal[{scale!r}]` has no scale; expected a whole number from 1 to {MAX_SCALE}"
        )
    if scale == 0:
        raise TypeNotSupported("`Decimal[0]` has no digit after the point", hint="use `int`")
    return types.Decimal(scale)


def _parse_between(
    dtype: object, least: object, greatest: object, strict_min: bool, strict_max: bool
) -> DataType:
    of = parse_annotation(dtype)
    if not isinstance(of, types.Int | types.Float):
        raise RestrictionInvalid(f"`between` got `{name_of(dtype)}`; expected `int` or `float`")
    if not _is_number(least, of) or not _is_number(greatest, of):
        raise RestrictionInvalid(
            f"bounds {least!r} and {greatest!r} of `between` are not both `{name_of(dtype)}`"
        )
    if not isinstance(least, int | float) or not isinstance(greatest, int | float):
        raise RestrictionInvalid("bounds of `between` are numbers")
    if least > greatest or (least == greatest and (strict_min or strict_max)):
        raise RestrictionInvalid(f"no value lies between {least!r} and {greatest!r}")
    return types.Between(of, least, greatest, strict_min, strict_max)


def _is_number(value: object, of: DataType) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(of, types.Float) and isinstance(value, float))


def _parse_oneof(dtype: object, options: tuple[object, ...]) -> DataType:
    of = parse_annotation(dtype)
    if not isinstance(of, types.Int | types.Str):
        raise RestrictionInvalid(f"`oneof` got `{name_of(dtype)}`; expected `int` or `str`")
    known: list[int | str] = []
    for option in options:
        fits = isinstance(option, int) if isinstance(of, types.Int) else isinstance(option, str)
        if not fits or isinstance(option, bool) or not isinstance(option, int | str):
            raise RestrictionInvalid(f"option {option!r} of `oneof` is not `{name_of(dtype)}`")
        known.append(option)
    if not known:
        raise RestrictionInvalid("`oneof` has no options")
    return types.OneOf(of, tuple(known))


def parse_columns(
    annotations: Mapping[str, Annotation],
) -> tuple[dict[str, DataType], list[tuple[str, DefinitionError]]]:
    """Parse many; return the valid types and, by name, the errors of the others."""
    parsed: dict[str, DataType] = {}
    errors: list[tuple[str, DefinitionError]] = []
    for name, annotation in annotations.items():
        try:
            parsed[name] = parse_annotation(annotation)
        except DefinitionError as error:
            errors.append((name, error))
    return parsed, errors
