"""The metadata of an entity: owner, description, tags."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Self, TypeVar

import attrs

from narthex._authoring.source_locations import author_origin
from narthex._base.origin import Origin
from narthex._ir.alerts import AlertBound, Freshness, QuarantineRate
from narthex._ir.schema import Metadata
from narthex.errors import DefinitionError, MetaInvalid

META_ATTRIBUTE = "__narthex_meta__"
"""The attribute of a class or a function that contains its `@meta`."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_T = TypeVar("_T")


@attrs.define(eq=False)
class Described:
    """A call in the body of a class to which `.meta(…)` adds metadata."""

    said: Metadata = attrs.field(factory=Metadata, kw_only=True)

    def meta(
        self,
        owner: str = "",
        description: str = "",
        tags: list[str] | None = None,
        deprecated: bool = False,
        deleted: bool = False,
    ) -> Self:
        """Set the owner and the description."""
        self.said = metadata(
            owner=owner, description=description, tags=tags, deprecated=deprecated, deleted=deleted
        )
        return self


def meta(
    owner: str = "",
    description: str = "",
    tags: list[str] | str | None = None,
    deprecated: bool = False,
    deleted: bool = False,
    alerts: Sequence[AlertBound] | AlertBound = (),
) -> Callable[[_T], _T]:
    """Set the owner and the description of a dataset, featureset, pipeline or extractor.

    It changes no asset and needs no new version.

    Args:
        owner: The e-mail address of the owner.
        description: A text for readers.
        tags: Tags, or a single one.
        deprecated: Whether it should not be used any more.
        deleted: Whether commits leave it out.
        alerts: Bounds of a dataset, `Freshness(…)` and `QuarantineRate(…)`, or a single one; those
            of a featureset are for all datasets that its features look up.

    Raises:
        MetaInvalid: The owner is not an e-mail address, or an alert is not a bound.
    """
    said = attrs.evolve(
        metadata(
            owner=owner, description=description, tags=tags, deprecated=deprecated, deleted=deleted
        ),
        alerts=_listed(alerts),
    )
    for error in check_metadata(said, origin=author_origin()):
        raise error

    def say(entity: _T) -> _T:
        setattr(entity, META_ATTRIBUTE, said)
        return entity

    return say


def metadata(
    *,
    owner: str,
    description: str,
    tags: list[str] | str | None,
    deprecated: bool,
    deleted: bool,
) -> Metadata:
    """Return the arguments as a metadata value; a single tag may be a plain string."""
    return Metadata(
        owner=owner,
        description=description,
        tags=(tags,) if isinstance(tags, str) else tuple(tags or ()),
        deprecated=deprecated,
        deleted=deleted,
    )


def default_owner(frame: FrameType | None) -> str:
    """Return the `__owner__` of the module of a frame; empty if it has none."""
    owner = frame.f_globals.get("__owner__", "") if frame else ""
    return owner if isinstance(owner, str) else ""


def metadata_of(entity: object) -> Metadata:
    """Return the metadata of a class or function; it is empty without `@meta`."""
    said = getattr(entity, META_ATTRIBUTE, None)
    return said if isinstance(said, Metadata) else Metadata()


def said_of(call: object, function: object) -> Metadata:
    """Return the metadata of `@meta` above a function's decorator, otherwise of the one below."""
    said = metadata_of(call)
    found = said if said != Metadata() else metadata_of(function)
    return completed(found, documentation=documentation_of(function))


def documentation_of(entity: object) -> str:
    """Return the docstring of a class or function itself, not of a base class."""
    found = vars(entity).get("__doc__") if isinstance(entity, type) else entity.__doc__
    return inspect.cleandoc(found) if isinstance(found, str) else ""


def completed(said: Metadata, *, documentation: str, owner: str = "") -> Metadata:
    """Return metadata with an owner and a description in place of missing ones."""
    return attrs.evolve(
        said, owner=said.owner or owner, description=said.description or documentation
    )


def check_metadata(said: Metadata, *, origin: Origin) -> tuple[DefinitionError, ...]:
    """Return errors for an owner that is not an address, for non-text values, and for alerts."""
    parts: tuple[object, ...] = (said.owner, said.description, *said.tags)
    errors: list[DefinitionError] = [
        MetaInvalid(f"`{part!r}` is not text", origin=origin)
        for part in parts
        if not isinstance(part, str)
    ]
    if not errors and said.owner and not _EMAIL.fullmatch(said.owner):
        errors.append(
            MetaInvalid(
                f"owner `{said.owner}` is not an e-mail address",
                origin=origin,
                hint="write it as `name@example.com`",
            )
        )
    return (*errors, *_alert_errors(said, origin))


def no_alerts(said: Metadata, what: str, *, origin: Origin) -> tuple[DefinitionError, ...]:
    """Return an error if an entity without rows of its own has alerts."""
    if not said.alerts:
        return ()
    return (
        MetaInvalid(
            f"{what} has `alerts`, which are bounds of datasets",
            origin=origin,
            hint="move them to `@meta` of the dataset, or of a featureset that looks it up",
        ),
    )


def _listed(alerts: object) -> tuple[AlertBound, ...]:
    """Return the alerts as a tuple; `check_metadata` refuses what is not a bound."""
    given = alerts if isinstance(alerts, list | tuple) else (alerts,)
    return tuple(given)


def _alert_errors(said: Metadata, origin: Origin) -> Iterator[MetaInvalid]:
    kinds: set[type] = set()
    given: tuple[object, ...] = said.alerts
    for bound in given:
        if not isinstance(bound, Freshness | QuarantineRate):
            yield MetaInvalid(
                f"`alerts` has `{bound!r}`",
                origin=origin,
                hint='list bounds, such as `Freshness("10m")` and `QuarantineRate(0.01)`',
            )
        elif type(bound) in kinds:
            yield MetaInvalid(
                f"`alerts` has two bounds `{type(bound).__name__}`",
                origin=origin,
                hint="keep the stricter one",
            )
        kinds.add(type(bound))
