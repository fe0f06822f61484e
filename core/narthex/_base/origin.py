"""The place of a definition in the author's files."""

import attrs
from typing_extensions import override

from narthex._base.records import record


@record
@attrs.frozen(kw_only=True, order=True)
class Origin:
    """A place in an author's file.

    Attributes:
        file: The path as the author would name it, relative to the project where possible.
        line: Counted from one; zero when unknown.
    """

    file: str
    line: int

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Origin(file="<unknown>", line=0)
