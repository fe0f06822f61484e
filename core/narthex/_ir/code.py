"""User code as a value: source text with all code that it depends on, never a pickle."""

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, record


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
        requires: The libraries that the code imports, sorted.
        python: The `major.minor` of Python for which the code was written.
        tree: The fingerprint of its syntax tree, which ignores comments and layout.
        origin: The function's place in the author's file.
    """

    entry: str
    source: str = attrs.field(metadata=DESCRIPTION)
    tree: bytes
    requires: tuple[Requirement, ...] = ()
    python: str
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
