# ruff: noqa: INP001
"""The examples of the reference, one file of sessions per module: `docs/examples`.

A file begins with its head: what all its examples use, shown once at the top of the page. A section
`## Name` per public name follows, `## Class.method` for methods. Both have paragraphs of prose and
sessions of Python as the standard library's `doctest` reads them.
"""

import doctest
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from docs.public_api import entries

FOLDER: Final = Path(__file__).parent / "examples"
_HEADING = re.compile(r"^## (\S+)\n", re.MULTILINE)


@attrs.frozen(kw_only=True)
class Section:
    """The text of one name, or of the head.

    Attributes:
        line: The number of lines before it in its file.
    """

    text: str
    line: int

    @property
    def sessions(self) -> list[doctest.Example]:
        """The inputs of its sessions with the shown outputs, each at its line of the file."""
        return doctest.DocTestParser().get_examples("\n" * self.line + self.text)

    def rendered(self) -> Iterator[str]:
        """Yield the lines of the section in Markdown."""
        session: list[str] = []
        for paragraph in [*self.text.strip("\n").split("\n\n"), ""]:
            if paragraph.startswith(">>>"):
                session.append(paragraph)
                continue
            if session:
                yield "```pycon\n" + "\n\n".join(session) + "\n```\n"
                session = []
            if paragraph:
                yield f"{paragraph}\n"


@attrs.frozen(kw_only=True)
class Examples:
    """The examples of a module's names."""

    file: Path
    head: Section
    sections: Mapping[str, Section]

    def shown_for(self, name: str) -> Iterator[str]:
        """Yield the lines that a reference page has about a name; none without an example."""
        section = self.sections.get(name)
        if section is not None:
            yield "Example:\n"
            yield from section.rendered()


@cache
def examples_of(module: str) -> Examples:
    """Read the examples of a module.

    Raises:
        ValueError: A name has two sections.
    """
    file = FOLDER / f"{module}.txt"
    text = file.read_text(encoding="utf-8")
    marks = [*_HEADING.finditer(text)]
    begins = [mark.end() for mark in marks]
    ends = [*(mark.start() for mark in marks), len(text)]
    sections: dict[str, Section] = {}
    for mark, begin, end in zip(marks, begins, ends[1:], strict=True):
        if mark[1] in sections:
            raise ValueError(f"{file.name} has two examples of `{mark[1]}`; merge them")
        sections[mark[1]] = Section(text=text[begin:end], line=text.count("\n", 0, begin))
    return Examples(file=file, head=Section(text=text[: ends[0]], line=0), sections=sections)


def names_of_reference(module: str) -> Iterator[str]:
    """Yield the names that have a heading on a module's page."""
    for entry in entries(module):
        yield entry.name
        for member in entry.members:
            if member.kind != "attribute":
                yield f"{entry.name}.{member.name}"
