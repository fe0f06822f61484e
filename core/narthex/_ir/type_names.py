"""Types as an author writes them, for messages."""

from typing import assert_never

import attrs

from narthex._ir.types import (
    Between,
    DataType,
    OneOf,
    Regex,
    Restricted,
    Struct,
    TypeMapper,
    same_as_inner,
)


def type_name(of: DataType) -> str:
    """Render a type as its annotation, such as `Optional[int]`."""
    return _NAMES.uncached(of)


def unrestricted_name(of: DataType) -> str:
    """Render a type without the values that its author allows, such as `int` for a `between`."""
    return _UNRESTRICTED.uncached(of)


def annotation(of: DataType) -> str:
    """Render a type as Python that declares it, with all bounds of a `between`."""
    return _ANNOTATIONS.uncached(of)


def _struct_name(dtype: Struct, _: object) -> str:
    return dtype.name or f"struct of {', '.join(field.name for field in dtype.fields)}"


def _restricted_name(dtype: Restricted, base: str) -> str:
    match dtype:
        case Between():
            return f"between({base}, {dtype.min}, {dtype.max})"
        case OneOf():
            return f"oneof({base}, {list(dtype.options)})"
        case Regex():
            return f"regex({dtype.pattern!r})"
        case _:
            assert_never(dtype)


def _exact_name(dtype: Restricted, base: str) -> str:
    if not isinstance(dtype, Between):
        return _restricted_name(dtype, base)
    strict = {"strict_min": dtype.strict_min, "strict_max": dtype.strict_max}
    bounds = "".join(f", {name}=True" for name, is_strict in strict.items() if is_strict)
    return f"between({base}, {dtype.min!r}, {dtype.max!r}{bounds})"


_NAMES: TypeMapper[str] = TypeMapper(
    int="int",
    float="float",
    bool="bool",
    str="str",
    bytes="bytes",
    datetime="datetime",
    date="date",
    decimal=lambda dtype: f"Decimal[{dtype.scale}]",
    list=lambda _, item: f"List[{item}]",
    map=lambda _, value: f"Dict[str, {value}]",
    embedding=lambda dtype, _: f"Embedding[{dtype.size}]",
    struct=_struct_name,
    optional=lambda _, name: f"Optional[{name}]",
    null=lambda: "null",
    restricted=_restricted_name,
)

_ANNOTATIONS: TypeMapper[str] = attrs.evolve(_NAMES, null=lambda: "None", restricted=_exact_name)

_UNRESTRICTED: TypeMapper[str] = attrs.evolve(_NAMES, restricted=same_as_inner)
