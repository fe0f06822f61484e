# ruff: noqa: INP001
"""Writes the pages of the public API and their snapshot: `python -m docs.render_reference`.

`docs/reference` has one page per module, and one each for operators, aggregates, windows and types.
The examples below names come from `docs/examples`, whose sessions tests run.
`tests/core/public_api.txt` has every public signature. Tests compare all of them with the code.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.language_pages import language
from docs.public_api import MODULES, Entry, entries
from docs.reference_examples import Examples, examples_of
from narthex.errors import NarthexError, catalogue

DOCS: Final = Path(__file__).parent
REFERENCE: Final = DOCS / "reference"
SNAPSHOT: Final = DOCS.parent / "tests" / "core" / "public_api.txt"
ONE_LINE: Final = 88
WRITTEN_BY: Final = (
    "`python -m docs.render_reference` writes this page from the docstrings and `docs/examples`."
)
_SECTION = re.compile(r"(Args|Attributes|Raises|Examples):\n")
_ITEM = re.compile(r"^(\S[^:\n]*): (.*)$")
_TITLES: Final = {"Args": "Parameters", "Attributes": "Attributes", "Raises": "Errors"}


def pages() -> dict[str, str]:
    """Render every page, by file name."""
    found = {f"{name}.md": _module_page(name) for name in MODULES}
    for page in language():
        examples = examples_of(page.module)
        parts = [page.introduction.strip("\n"), "", WRITTEN_BY, "", *examples.head.rendered()]
        parts += [line for entry in page.entries for line in _section(entry, examples)]
        found[f"{page.name}.md"] = _joined(parts)
    found["README.md"] = _index()
    return found


def snapshot() -> str:
    """Render every public signature, for the review of changes."""
    lines = ["# Every public signature. Written by `python -m docs.render_reference`.", ""]
    for module in MODULES:
        lines += [module, ""]
        lines += [line for entry in entries(module) for line in _listed(entry, "    ")]
    return _joined(lines)


def _listed(entry: Entry, indent: str) -> Iterator[str]:
    for line in form(entry, most=0).splitlines():
        yield indent + line
    for name, meant in entry.aliases:
        yield f"{indent}    where {name} = {meant}"
    for member in entry.members:
        yield from _listed(member, indent + "    ")
    if len(indent) == 4:  # noqa: PLR2004 (a name of the module itself)
        yield ""


def form(entry: Entry, *, most: int = ONE_LINE) -> str:
    """Render the signature of a name, on one line if it is not longer than `most`."""
    gives = f" -> {entry.gives}" if entry.gives else ""
    if entry.kind in {"attribute", "property"}:
        return f"{entry.name}: {entry.gives}" if entry.gives else entry.name
    word = "" if entry.kind in {"function", "method"} else f"{entry.kind} "
    if entry.parameters is None:
        return f"{word}{entry.name}"
    short = f"{word}{entry.name}({', '.join(entry.parameters)}){gives}"
    if len(short) <= max(most, 0) or not entry.parameters:
        return short
    inner = "".join(f"    {parameter},\n" for parameter in entry.parameters)
    return f"{word}{entry.name}(\n{inner}){gives}"


def _module_page(name: str) -> str:
    module = sys.modules.get(name)
    known = entries(name)
    module = sys.modules[name] if module is None else module
    about = inspect.getdoc(module) or ""
    examples = examples_of(name)
    parts = [f"# `{name}`", "", *_text(about), WRITTEN_BY, "", *examples.head.rendered()]
    for entry in known:
        parts += _section(entry, examples)
    return _joined(parts)


def _index() -> str:
    parts = [
        "# Reference",
        "",
        "This page lists the public modules: every name with its parameters, results and errors.",
        "",
    ]
    parts += ["| module | |", "|---|---|"]
    for name in MODULES:
        entries(name)
        about = (inspect.getdoc(sys.modules[name]) or "").split("\n")[0]
        parts.append(f"| [`{name}`]({name}.md) | {about} |")
    parts += ["", "| the language | |", "|---|---|"]
    parts += [f"| [{page.name}]({page.name}.md) | {page.about} |" for page in language()]
    parts.append("| [expressions](expressions.md) | What `col`, `lit` and `when` build. |")
    parts.append("| [connectors](connectors.md) | Each kind of connector, and what it reaches. |")
    parts += ["", "| the server | |", "|---|---|"]
    parts.append("| [REST API](rest.md) | Each operation of the server, and the right it needs. |")
    parts.append("| [commands](commands.md) | Each command, and the exit codes. |")
    parts += ["", "[Errors](../errors.md) has every error with what to do instead."]
    return _joined([*parts, "", WRITTEN_BY])


def _section(entry: Entry, examples: Examples) -> Iterator[str]:
    yield f"## `{entry.name}`"
    yield ""
    yield "```text"
    yield form(entry)
    for name, meant in entry.aliases:
        if meant != "object":
            yield f"    where {name} = {meant}"
    yield "```"
    yield ""
    yield from _text(entry.doc)
    attributes = [one for one in entry.members if one.kind == "attribute"]
    said = "Attributes:\n" in entry.doc
    if attributes and not said:
        names = (
            f"`{one.name}`: `{one.gives}`" if one.gives else f"`{one.name}`" for one in attributes
        )
        yield f"Attributes: {', '.join(names)}."
        yield ""
    yield from examples.shown_for(entry.name)
    for member in entry.members:
        if member.kind != "attribute":
            name = f"{entry.name}.{member.name}"
            yield from _member(member, name)
            yield from examples.shown_for(name)


def _member(member: Entry, full_name: str) -> Iterator[str]:
    shown = form(member).replace(member.name, full_name, 1)
    yield f"### `{full_name}`"
    yield ""
    yield f"```text\n{shown}"
    for name, meant in member.aliases:
        if meant != "object":
            yield f"    where {name} = {meant}"
    yield "```"
    yield ""
    yield from _text(member.doc)


def _text(doc: str) -> Iterator[str]:
    """Render a docstring: paragraphs, indented code, and the items under its headings."""
    for paragraph in doc.split("\n\n"):
        section = _SECTION.match(paragraph)
        if section is None:
            code = paragraph.startswith("    ")
            yield f"```text\n{inspect.cleandoc(paragraph)}\n```" if code else paragraph
        elif section[1] in _TITLES:
            yield f"{_TITLES[section[1]]}:\n"
            yield from _items(paragraph[section.end() :], errors=section[1] == "Raises")
        yield ""


def _items(block: str, *, errors: bool) -> Iterator[str]:
    items: list[str] = []
    for line in textwrap.dedent(block).splitlines():
        found = None if line.startswith(" ") else _ITEM.match(line)
        if found is None:
            items[-1] += f" {line.strip()}"
        else:
            name = _linked(found[1]) if errors else f"`{found[1]}`"
            items.append(f"- {name}: {found[2]}")
    yield from items


def _linked(name: str) -> str:
    """Return an error's name as a link to its section; an error of Python as its name."""
    for code, cls in catalogue().items():
        if cls.__name__ == name and issubclass(cls, NarthexError):
            return f"[`{name}`](../errors.md#{code.lower()}-{name.lower()})"
    return f"`{name}`"


def _joined(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


if __name__ == "__main__":
    for file, text in pages().items():
        (REFERENCE / file).write_text(text, encoding="utf-8")
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
