"""Fields of a dataset's class: annotations and `field(…)` calls."""

import inspect
import re
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

import attrs
from typing_extensions import override

from narthex._authoring.source_locations import ClassPlaces
from narthex._base.origin import Origin
from narthex._ir.schema import Column, Role, Schema
from narthex._ir.schema import Field as SchemaField
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, Date, Datetime, Embedding, Float, Optional, unrestricted
from narthex._sdk.annotations import name_of, parse_annotation
from narthex._sdk.declare.metadata import Described, check_metadata
from narthex.errors import (
    DefinitionError,
    FieldInvalid,
    KeyNotAllowed,
    NameNotAllowed,
    TimestampUnclear,
    TypeNotSupported,
)

RESERVED: Final = frozenset(
    {
        "cls",
        "self",
        "fields",
        "key_fields",
        "erase_key_fields",
        "on_demand",
        "timestamp_field",
        "fqn",
        "lookup",
    }
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@attrs.define(eq=False)
class FieldCall(Described):
    """A `field(…)` call, which is validated when the class is created."""

    key: bool = False
    timestamp: bool = False
    erase_key: bool = False


def field(key: bool = False, timestamp: bool = False, erase_key: bool = False) -> Any:  # type: ignore[explicit-any]
    """Set the role of a field; put it after the field's annotation, whatever its type.

    `.meta(owner, description, tags)` adds metadata.

    Args:
        key: Whether it is part of the dataset's key.
        timestamp: Whether it is the event time.
        erase_key: Whether rows are erased by it; it must be a key.
    """
    return FieldCall(key, timestamp, erase_key)


@attrs.frozen(kw_only=True)
class Field:
    """A field of a dataset, the value of `Dataset.name`.

    Attributes:
        keys: The dataset's key, by which a feature looks the field up.
        is_indexed: Whether the dataset can be looked up.
        is_broken: Whether the dataset has errors, so that the field's type is unknown.
    """

    dataset: str
    name: str
    dtype: DataType
    optional: bool = False
    keys: tuple[Column, ...] = attrs.field(default=(), eq=False, repr=False)
    is_indexed: bool = attrs.field(default=True, eq=False, repr=False)
    is_broken: bool = attrs.field(default=False, eq=False, repr=False)

    def fqn(self) -> str:
        """Return the field's full name, `Dataset.field`."""
        return f"{self.dataset}.{self.name}"

    @override
    def __str__(self) -> str:
        return self.name


def annotations_of(cls: type, frame: FrameType | None) -> dict[str, object]:
    """Return a class's annotations, with those written as text resolved if possible.

    An unresolved one stays text and is reported as an unknown type.
    """
    written = inspect.get_annotations(cls)
    scope = {**(frame.f_globals if frame else {}), **(frame.f_locals if frame else {})}
    return {name: _resolved(name, value, scope) for name, value in written.items()}


def _resolved(name: str, annotation: object, scope: Mapping[str, object]) -> object:
    if not isinstance(annotation, str):
        return annotation
    carrier = type("Annotated", (), {"__annotations__": {name: annotation}})
    try:
        resolved: object = inspect.get_annotations(carrier, globals=dict(scope), eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return annotation
    return resolved[name] if isinstance(resolved, dict) else annotation


def build_schema(
    cls: type, annotations: Mapping[str, object], places: ClassPlaces
) -> tuple[Schema | None, list[DefinitionError]]:
    """Return a dataset's schema and all errors of its fields.

    The schema is None if a field has no type or the event time is ambiguous.
    """
    errors: list[DefinitionError] = []
    fields: list[SchemaField] = []
    for name, annotation in annotations.items():
        origin = places.of(name)
        call = cls.__dict__.get(name)
        said = call if isinstance(call, FieldCall) else FieldCall()
        if call is not None and not isinstance(call, FieldCall):
            errors.append(_default_error(cls, name, call, origin))
        errors += check_name(name, owner=cls.__name__, origin=origin, reserved=RESERVED)
        try:
            of = parse_annotation(annotation)
        except DefinitionError as error:
            errors.append(error.located(origin, subject=f"field `{name}`"))
            continue
        errors += _field_errors(name, said, of, origin)
        fields.append(_schema_field(name, said, of, places.comments.get(name, "")))
    complete = len(fields) == len(annotations)
    marked, unclear = _mark_timestamp(cls.__name__, tuple(fields), places, complete=complete)
    if unclear is not None:
        errors.append(unclear)
    return (Schema(marked) if complete and marked else None), errors


def check_name(
    name: str, *, owner: str, origin: Origin, reserved: frozenset[str]
) -> list[DefinitionError]:
    """Refuse names that are reserved or cannot be columns."""
    if name in reserved:
        return [
            NameNotAllowed(
                f"`{name}` is reserved and cannot name a part of `{owner}`",
                origin=origin,
                hint="choose another name",
            )
        ]
    if not _NAME.fullmatch(name) or name.startswith("__"):
        return [
            NameNotAllowed(
                f"`{name}` cannot be a name; use letters, digits and `_`",
                origin=origin,
            )
        ]
    return []


def _default_error(cls: type, name: str, value: object, origin: Origin) -> DefinitionError:
    return FieldInvalid(
        f"field `{name}` of `{cls.__name__}` has the default `{value!r}`; fields have none",
        origin=origin,
        hint=f"write `{name}: …`, or `{name}: … = field(…)`",
    )


def _schema_field(name: str, said: FieldCall, of: DataType, comment: str) -> SchemaField:
    role = Role.KEY if said.key else Role.TIMESTAMP if said.timestamp else Role.VALUE
    about = said.said
    if comment and not about.description:
        about = attrs.evolve(about, description=comment)
    return SchemaField(name=name, type=of, role=role, erase_key=said.erase_key, metadata=about)


def _field_errors(
    name: str, said: FieldCall, of: DataType, origin: Origin
) -> list[DefinitionError]:
    errors: list[DefinitionError] = [*check_metadata(said.said, origin=origin)]
    if said.said.deleted or said.said.deprecated:
        errors.append(
            FieldInvalid(
                f"field `{name}` is marked deleted or deprecated; only whole entities can be",
                origin=origin,
            )
        )
    if said.erase_key and not said.key:
        errors.append(
            FieldInvalid(
                f"field `{name}` is an erase key but no key",
                origin=origin,
                hint="write `field(key=True, erase_key=True)`",
            )
        )
    return errors + (_key_errors(name, said, of, origin) if said.key else [])


def _key_errors(name: str, said: FieldCall, of: DataType, origin: Origin) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    if said.timestamp:
        errors.append(
            KeyNotAllowed(f"field `{name}` is both key and timestamp; it can be one", origin=origin)
        )
    if isinstance(of, Optional):
        errors.append(
            KeyNotAllowed(
                f"key `{name}` is optional; a key always has a value",
                origin=origin,
                hint="drop the rows without it before they get here",
            )
        )
    if isinstance(unrestricted(of), Float | Embedding):
        errors.append(
            KeyNotAllowed(
                f"key `{name}` is a `{type_name(of)}`; keys are compared exactly",
                origin=origin,
                hint="use `int`, `str` or `Decimal[n]`",
            )
        )
    return errors


def _mark_timestamp(
    dataset: str, fields: tuple[SchemaField, ...], places: ClassPlaces, *, complete: bool
) -> tuple[tuple[SchemaField, ...] | None, DefinitionError | None]:
    marked = [field for field in fields if field.role is Role.TIMESTAMP]
    candidates = marked or [
        field for field in fields if isinstance(field.type, Datetime) and field.role is Role.VALUE
    ]
    if len(candidates) != 1:
        # A field with an invalid type may be the event time: report one error at a time.
        unclear = not candidates and not complete
        return None, None if unclear else _unclear(dataset, candidates, places)
    (found,) = candidates
    if not isinstance(found.type, Datetime):
        return None, _not_an_instant(found, places)
    return (
        tuple(attrs.evolve(f, role=Role.TIMESTAMP) if f is found else f for f in fields),
        None,
    )


def _unclear(dataset: str, candidates: list[SchemaField], places: ClassPlaces) -> DefinitionError:
    if not candidates:
        return TimestampUnclear(
            f"dataset `{dataset}` has no event-time field",
            origin=places.origin,
            hint="add a field of type `datetime`",
        )
    names = ", ".join(f"`{field.name}`" for field in candidates)
    return TimestampUnclear(
        f"dataset `{dataset}` has several fields that could be the timestamp: {names}",
        origin=places.of(candidates[1].name),
        hint="mark one with `field(timestamp=True)`",
    )


def _not_an_instant(found: SchemaField, places: ClassPlaces) -> DefinitionError:
    kind = "date" if isinstance(found.type, Date) else name_of(type(found.type)).lower()
    return TypeNotSupported(
        f"field `{found.name}` is the timestamp but a `{kind}`; expected `datetime`",
        origin=places.of(found.name),
    )
