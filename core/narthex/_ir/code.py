"""User code as a value: source text with all code that it depends on, never a pickle."""

from collections.abc import Iterator

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, LATER, Value, record
from narthex._ir.locked_packages import LockedPackage


@record
@attrs.frozen(kw_only=True)
class CarriedFile:
    """A file that code reads. Its fingerprint has the hash instead of the content.

    Attributes:
        name: The name by which the code asks for it: a label, never a path on a platform.
        sha256: The hash of the content, 32 bytes.
        content: Its bytes.
    """

    name: str = attrs.field(validator=attrs.validators.instance_of(str))
    sha256: bytes = attrs.field(validator=attrs.validators.instance_of(bytes))
    content: bytes = attrs.field(
        metadata=DESCRIPTION, repr=False, validator=attrs.validators.instance_of(bytes)
    )


@record
@attrs.frozen(kw_only=True)
class Requirement:
    """A library that the code imports, at the version of the workers' locked environment."""

    distribution: str
    version: str


@record
@attrs.frozen(kw_only=True)
class UserCode:
    """A function of an author.

    Attributes:
        entry: The name that `source` binds to the function.
        source: A module's text: the imports, constants and functions that the entry depends on, in
            dependency order, then the entry itself.
        requires: The libraries of the platform that the code imports, sorted.
        python: The `major.minor` of Python for which the code was written.
        tree: The fingerprint of its syntax tree, which ignores comments and layout.
        files: The data files that the code reads, sorted by name.
        locked: The packages of the project's lock that the code uses, sorted by name; no other
            package of the lock can be imported by it.
        origin: The function's place in the author's file.
    """

    entry: str
    source: str = attrs.field(metadata=DESCRIPTION)
    tree: bytes
    requires: tuple[Requirement, ...] = ()
    python: str
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    files: tuple[CarriedFile, ...] = attrs.field(
        default=(),
        metadata=LATER,
        validator=attrs.validators.deep_iterable(
            attrs.validators.instance_of(CarriedFile), attrs.validators.instance_of(tuple)
        ),
    )
    locked: tuple[LockedPackage, ...] = attrs.field(
        default=(),
        metadata=LATER,
        validator=attrs.validators.deep_iterable(
            attrs.validators.instance_of(LockedPackage), attrs.validators.instance_of(tuple)
        ),
    )


def codes_in(value: Value) -> Iterator[UserCode]:
    """Yield the code in a record, at any depth."""
    if isinstance(value, UserCode):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from codes_in(item)
    else:
        for field in getattr(type(value), "__attrs_attrs__", ()):
            yield from codes_in(getattr(value, field.name))
