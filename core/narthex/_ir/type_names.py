"""Types as an author writes them, for messages."""

from narthex._ir.types import (
    Between,
    DataType,
    Decimal,
    Embedding,
    List,
    Map,
    OneOf,
    Optional,
    Regex,
    Struct,
)


def type_name(of: DataType) -> str:
    """Render a type as its annotation, such as `Optional[int]`."""
    match of:
        case Optional():
            return f"Optional[{type_name(of.of)}]"
        case List():
            return f"List[{type_name(of.of)}]"
        case Map():
            return f"Dict[str, {type_name(of.of)}]"
        case Struct():
            return of.name or f"struct of {', '.join(field.name for field in of.fields)}"
        case Decimal():
            return f"Decimal[{of.scale}]"
        case Embedding():
            return f"Embedding[{of.size}]"
        case _:
            return _restricted_name(of)


def _restricted_name(of: DataType) -> str:
    match of:
        case Between():
            return f"between({type_name(of.of)}, {of.min}, {of.max})"
        case OneOf():
            return f"oneof({type_name(of.of)}, {list(of.options)})"
        case Regex():
            return f"regex({of.pattern!r})"
        case _:
            return type(of).__name__.lower()
