"""Types as the annotations that declare them."""

from typing import assert_never

from narthex._ir.types import Between, DataType, OneOf, Regex, Restricted, Struct, TypeMapper


def annotation(of: DataType) -> str:
    """Write the annotation of a type, such as `Optional[int]`."""
    return _ANNOTATIONS.uncached(of)


def _struct(dtype: Struct, _: object) -> str:
    return dtype.name or "struct"


def _restricted(dtype: Restricted, base: str) -> str:
    match dtype:
        case Between(min=low, max=high, strict_min=above, strict_max=below):
            strict = (", strict_min=True" if above else "") + (", strict_max=True" if below else "")
            return f"between({base}, {low!r}, {high!r}{strict})"
        case OneOf():
            return f"oneof({base}, {list(dtype.options)!r})"
        case Regex():
            return f"regex({dtype.pattern!r})"
        case _:
            assert_never(dtype)


_ANNOTATIONS: TypeMapper[str] = TypeMapper(
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
    struct=_struct,
    optional=lambda _, name: f"Optional[{name}]",
    null=lambda: "None",
    restricted=_restricted,
)
