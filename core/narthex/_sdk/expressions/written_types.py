"""Render inferred types as the annotations that an author would write."""

import typing
from collections.abc import Iterable, Mapping
from datetime import date, datetime

from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    Optional,
    Str,
    Struct,
    base_type,
)
from narthex._sdk.annotations import (
    STRUCT_ATTRIBUTE,
    Annotation,
    Written,
    parse_annotation,
)

Classes: typing.TypeAlias = Mapping[Struct, type]
"""The known `@struct` classes by the type that each declares, without restrictions."""

_PLAIN: Mapping[type, Annotation] = {
    Int: int,
    Float: float,
    Bool: bool,
    Str: str,
    Bytes: bytes,
    Datetime: datetime,
    Date: date,
    Null: type(None),
}


_BUILT_IN: dict[Struct, type] = {}


def built_in(cls: type) -> type:
    """Register a `@struct` class that authors need not name; return the class."""
    found = getattr(cls, STRUCT_ATTRIBUTE)
    if not isinstance(found, Struct):
        raise TypeError(f"`{cls.__name__}` is not a struct")
    _BUILT_IN[found] = cls
    return cls


def classes_in(annotations: Iterable[Annotation]) -> dict[Struct, type]:
    """Return the `@struct` classes in annotations, including those of members."""
    found = dict(_BUILT_IN)
    pending = list(annotations)
    while pending:
        annotation = pending.pop()
        pending += typing.get_args(annotation)
        struct = getattr(annotation, STRUCT_ATTRIBUTE, None)
        if not isinstance(annotation, type) or not isinstance(struct, Struct):
            continue
        plain = base_type(struct)
        if isinstance(plain, Struct) and plain not in found:
            found[plain] = annotation
            pending += getattr(annotation, "__annotations__", {}).values()
    return found


def annotation_of(of: DataType, classes: Classes) -> Annotation:
    """Return the annotation of a type; for a struct without a known class, the type itself."""
    match of:
        case Optional():
            return typing.Optional[annotation_of(of.of, classes)]  # noqa: UP045 (made here)
        case List():
            return typing.List[annotation_of(of.of, classes)]  # type: ignore[misc]  # noqa: UP006
        case Map():
            return typing.Dict[str, annotation_of(of.of, classes)]  # type: ignore[misc]  # noqa: UP006
        case Decimal(scale=scale):
            return Written("Decimal", (scale,))
        case Embedding(size=size):
            return Written("Embedding", (size,))
        case Struct():
            return classes.get(of, of)
        case _:
            return _PLAIN.get(type(of), of)


def types_of(schema: Mapping[str, Annotation]) -> dict[str, DataType]:
    """Return the types that the annotations of columns mean.

    Raises:
        TypeNotSupported: No column can have one of them.
    """
    return {name: parse_annotation(of) for name, of in schema.items()}
