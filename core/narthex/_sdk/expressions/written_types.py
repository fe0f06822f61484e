"""Render inferred types as the annotations that an author would write."""

import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime

from narthex._ir.types import (
    DataType,
    List,
    Map,
    Members,
    Optional,
    Struct,
    TypeMapper,
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

_Annotate: typing.TypeAlias = Callable[[Classes], Annotation]
"""Returns the annotation of one type."""

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
    return _ANNOTATIONS(of)(classes)


def _plain(annotation: Annotation) -> _Annotate:
    return lambda _: annotation


def _list(_: List, item: _Annotate) -> _Annotate:
    return lambda classes: typing.List[item(classes)]  # type: ignore[misc]  # noqa: UP006


def _map(_: Map, value: _Annotate) -> _Annotate:
    return lambda classes: typing.Dict[str, value(classes)]  # type: ignore[misc]  # noqa: UP006


def _optional(_: Optional, required: _Annotate) -> _Annotate:
    return lambda classes: typing.Optional[required(classes)]  # noqa: UP045 (made here)


def _struct(dtype: Struct, _: Members[_Annotate]) -> _Annotate:
    return lambda classes: classes.get(dtype, dtype)


_ANNOTATIONS: TypeMapper[_Annotate] = TypeMapper(
    int=_plain(int),
    float=_plain(float),
    bool=_plain(bool),
    str=_plain(str),
    bytes=_plain(bytes),
    datetime=_plain(datetime),
    date=_plain(date),
    decimal=lambda dtype: _plain(Written("Decimal", (dtype.scale,))),
    list=_list,
    map=_map,
    embedding=lambda dtype, _: _plain(Written("Embedding", (dtype.size,))),
    struct=_struct,
    optional=_optional,
    null=lambda: _plain(type(None)),
    restricted=lambda dtype, _: _plain(dtype),
)


def types_of(schema: Mapping[str, Annotation]) -> dict[str, DataType]:
    """Return the types that the annotations of columns mean.

    Raises:
        TypeNotSupported: No column can have one of them.
    """
    return {name: parse_annotation(of) for name, of in schema.items()}
