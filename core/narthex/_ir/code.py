"""User code as a value: source text with all code that it depends on, never a pickle."""

import hashlib
import operator
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from narthex._base.canonical_source import canonical_source
from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, EXACT, LATER, Value, read_earlier, record

MOST_PACKAGES: Final = 200
"""The most packages of a lock that one function may use."""
MOST_HASHES: Final = 400
"""The most hashes of one package."""
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""A distribution's name in its normal form."""
VERSION: Final = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.!+_-]*[0-9A-Za-z])?")
"""A version, which has neither spaces nor wildcards."""

_HASH_BYTES: Final = 32


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
class LockedPackage:
    """A package of the project's lock that the code imports, or that such a package needs.

    Attributes:
        distribution: Its name, in the form in which indexes compare names.
        version: Its exact version.
        hashes: The SHA-256 of each file that may be installed, 32 bytes each, sorted.
        origin: Its line in the lock.
    """

    distribution: str = attrs.field(validator=attrs.validators.instance_of(str))
    version: str = attrs.field(validator=attrs.validators.instance_of(str))
    hashes: tuple[bytes, ...] = attrs.field(
        validator=attrs.validators.deep_iterable(
            attrs.validators.instance_of(bytes), attrs.validators.instance_of(tuple)
        )
    )
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)

    @property
    def is_well_formed(self) -> bool:
        """Whether it can be a line of a lock, in which a tool finds nothing but a package."""
        return bool(
            NAME.fullmatch(self.distribution)
            and VERSION.fullmatch(self.version)
            and 0 < len(self.hashes) <= MOST_HASHES
            and all(len(one) == _HASH_BYTES for one in self.hashes)
            and list(self.hashes) == sorted(set(self.hashes))
        )

    def line(self) -> str:
        """Render the line of a lock.

        Raises:
            ValueError: It is not well-formed.
        """
        if not self.is_well_formed:
            raise ValueError(f"`{self.distribution!r}` cannot be locked")
        hashes = "".join(f" --hash=sha256:{one.hex()}" for one in self.hashes)
        return f"{self.distribution}=={self.version}{hashes}"


@record
@attrs.frozen(kw_only=True)
class UserCode:
    """A function of an author.

    Attributes:
        entry: The name that `source` binds to the function.
        source: The text that runs, a module in its canonical form: the imports, constants and
            functions that the entry depends on, in dependency order, and the entry itself.
        requires: The libraries of the platform that the code imports, sorted.
        python: The `major.minor` of Python for which the code was written.
        files: The data files that the code reads, sorted by name.
        locked: The packages of the project's lock that the code uses, sorted by name; no other
            package of the lock can be imported by it.
        origin: The function's place in the author's file.
        written: The text as its author wrote it, by which lines of that file are found; empty if
            it is the same. It never runs.
    """

    entry: str
    source: str = attrs.field(metadata=EXACT)
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
    written: str = attrs.field(default="", metadata=DESCRIPTION)

    @property
    def author_text(self) -> str:
        """The text as its author wrote it."""
        return self.written or self.source

    def rewritten(self) -> "UserCode":
        """Return the code with the text that this process would run for its author's text.

        Raises:
            UnknownSyntaxError: The text has a construct that author code may not use.
            SyntaxError: The text is not Python.
            ValueError: Its tree cannot be written as a text that has the same meaning.
            RecursionError: It nests too deeply.
        """
        source = canonical_source(self.author_text)
        written = "" if source == self.author_text else self.author_text
        return attrs.evolve(self, source=source, written=written)


def _read_earlier(fields: Mapping[str, Value]) -> Mapping[str, Value]:
    """Rewrite code that was stored when its fingerprint was a hash of its syntax tree."""
    source = fields.get("source")
    if "tree" not in fields or not isinstance(source, str):
        return fields
    kept = {name: value for name, value in fields.items() if name != "tree"}
    return kept | {"source": canonical_source(source), "written": source}


read_earlier("UserCode", _read_earlier)


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


def with_codes(value: Value, change: Callable[[UserCode], UserCode]) -> Value:
    """Return a record, or a tuple of records, with all code in it changed, at any depth."""
    if isinstance(value, UserCode):
        return change(value)
    if isinstance(value, tuple):
        items = tuple(with_codes(item, change) for item in value)
        return value if all(map(operator.is_, items, value)) else items
    cls = type(value)
    if not attrs.has(cls):
        return value
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(cls)}
    changed = {name: with_codes(one, change) for name, one in fields.items()}
    is_same = all(one is fields[name] for name, one in changed.items())
    return value if is_same else cls(**changed)


def render_lock(packages: tuple[LockedPackage, ...]) -> str:
    """Render packages as a lock, each in a line.

    Raises:
        ValueError: One is not well-formed.
    """
    return "".join(f"{one.line()}\n" for one in packages)


def environment_name(packages: tuple[LockedPackage, ...]) -> str:
    """Return the name of the environment with these packages; empty for none.

    It depends on the packages, this Python and this kind of machine, and on nothing else.

    Raises:
        ValueError: A package is not well-formed.
    """
    if not packages:
        return ""
    place = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}\n"
    return hashlib.sha256((place + render_lock(packages)).encode()).hexdigest()
