"""The metadata of an entity: owner, description, tags."""

import re
from collections.abc import Callable
from typing import TypeVar

from narthex._authoring.source_locations import author_origin
from narthex._base.origin import Origin
from narthex._ir.schema import Metadata
from narthex.errors import DefinitionError, MetaInvalid

META_ATTRIBUTE = "__narthex_meta__"
"""The attribute of a class or a function that contains its `@meta`."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_T = TypeVar("_T")


def meta(
    owner: str = "",
    description: str = "",
    tags: list[str] | str | None = None,
    deprecated: bool = False,
    deleted: bool = False,
) -> Callable[[_T], _T]:
    """Set the owner and the description of a dataset, featureset, pipeline or extractor.

    It changes no asset and needs no new version.

    Raises:
        MetaInvalid: The owner is not an e-mail address.
    """
    said = metadata(
        owner=owner, description=description, tags=tags, deprecated=deprecated, deleted=deleted
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


def metadata_of(entity: object) -> Metadata:
    """Return the metadata of a class or function; it is empty without `@meta`."""
    said = getattr(entity, META_ATTRIBUTE, None)
    return said if isinstance(said, Metadata) else Metadata()


def said_of(call: object, function: object) -> Metadata:
    """Return the metadata of `@meta` above a function's decorator, otherwise of the one below."""
    said = metadata_of(call)
    return said if said != Metadata() else metadata_of(function)


def check_metadata(said: Metadata, *, origin: Origin) -> tuple[DefinitionError, ...]:
    """Return errors for an owner that is not an e-mail address, and for non-text values."""
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
    return tuple(errors)
