"""Structs: classes whose annotations are the members of one value."""

from collections.abc import Mapping
from types import FunctionType

from typing_extensions import override

from narthex._authoring.error_collection import report
from narthex._authoring.source_locations import ClassPlaces, author_frame, class_places
from narthex._ir.types import WINDOW, Bool, Struct, StructField
from narthex._sdk.annotations import STRUCT_ATTRIBUTE, parse_annotation
from narthex._sdk.declare.fields import annotations_of
from narthex._sdk.declare.metadata import META_ATTRIBUTE
from narthex._sdk.expressions.authoring import Expr, Operand, make_struct, zip_struct
from narthex._sdk.expressions.written_types import built_in
from narthex.errors import DefinitionError, StructInvalid

_METHODS = (FunctionType, staticmethod, classmethod, property)


class _StructValue:
    """An instance of a `@struct` class; equal when its members are."""

    def __init__(self, *values: object, **members: object) -> None:
        known = getattr(type(self), STRUCT_ATTRIBUTE)
        names = [field.name for field in known.fields] if isinstance(known, Struct) else []
        given = [*names[: len(values)], *members]
        if len(values) > len(names) or sorted(names) != sorted(given):
            raise TypeError(f"{type(self).__name__} takes exactly {', '.join(names)}")
        by_name = {**dict(zip(names, values, strict=False)), **members}
        for name in names:
            setattr(self, name, by_name[name])

    @classmethod
    def expr(cls, **members: Operand) -> Expr:
        """Return an expression of a struct with these members."""
        return make_struct(members, cls)

    @classmethod
    def zip(cls, **members: Operand) -> Expr:
        """Return a list expression of structs of these lists' items, as long as the shortest."""
        return zip_struct(members, cls)

    def as_json(self) -> dict[str, object]:
        """Return the members by name, with inner structs converted too."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):  # the form of a struct in an answer
            return self.as_json() == _plain(other)
        return type(self) is type(other) and vars(self) == vars(other)

    @override
    def __hash__(self) -> int:
        return hash(repr(self))

    @override
    def __repr__(self) -> str:
        members = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({members})"


@built_in
class Window(_StructValue):
    """The span of a discrete window, with `begin` inclusive and `end` exclusive."""

    __narthex_struct__ = WINDOW


def _plain(value: object) -> object:
    if isinstance(value, _StructValue):
        return value.as_json()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def struct_of(name: str, *members: str) -> type:
    """Return a class whose instances have these members; captured code uses it for structs."""
    fields = tuple(StructField(member, Bool()) for member in members)
    return type(name, (_StructValue,), {STRUCT_ATTRIBUTE: Struct(name, fields)})


def struct(cls: type) -> type:
    """Declare a struct: the class's annotations are its members.

    Raises:
        DefinitionErrors: The class has a method, a default or a meta, or a member has no type.
    """
    frame = author_frame()
    places = class_places(cls.__name__, frame)
    annotations = annotations_of(cls, frame)
    errors = [*_shape_errors(cls, annotations, places)]
    members: list[StructField] = []
    for name, annotation in annotations.items():
        try:
            members.append(StructField(name, parse_annotation(annotation)))
        except DefinitionError as error:
            errors.append(error.located(places.of(name), subject=f"member `{name}`"))
    report(errors)
    made = Struct(cls.__name__, tuple(members))
    return type(
        cls.__name__,
        (_StructValue,),
        {
            STRUCT_ATTRIBUTE: made,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__annotations__": dict(annotations),
            **{name: value for name, value in vars(cls).items() if _is_struct(value)},
        },
    )


def _shape_errors(
    cls: type, annotations: Mapping[str, object], places: ClassPlaces
) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    if META_ATTRIBUTE in cls.__dict__:
        errors.append(StructInvalid(f"struct `{cls.__name__}` has a `@meta`", origin=places.origin))
    for name, value in vars(cls).items():
        if name in annotations:
            errors.append(
                StructInvalid(
                    f"member `{name}` of struct `{cls.__name__}` has the default `{value!r}`",
                    origin=places.of(name),
                    hint="leave the default out",
                )
            )
        elif not name.startswith("__") and not _is_struct(value):
            kind = "method" if isinstance(value, _METHODS) else "attribute"
            errors.append(
                StructInvalid(
                    f"struct `{cls.__name__}` has the {kind} `{name}`; it can have members only",
                    origin=places.origin,
                )
            )
    return errors


def _is_struct(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, _StructValue)
