"""User code as a value: source text with everything it reaches, never a pickle."""

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
        source: A module's text: imports, constants and functions that the entry reaches, in
            dependency order, then the entry itself.
        requires: Libraries that it imports, sorted.
        python: The `major.minor` that it was written for.
        tree: The fingerprint of its syntax tree, blind to comments and layout.
        origin: Where it stands in the author's file.
    """

    entry: str
    source: str = attrs.field(metadata=DESCRIPTION)
    tree: bytes
    requires: tuple[Requirement, ...] = ()
    python: str
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
