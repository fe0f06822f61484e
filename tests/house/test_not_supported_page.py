"""The guide names each refusal with `NX901`, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.house.test_house import ROOT

pytestmark = pytest.mark.slow

PAGE: Final = ROOT / "docs" / "guide" / "not-supported.md"
SOURCES: Final = ("core/narthex", "server/narthex_server")
ELIDED: Final = "…"


def text_of(node: ast.expr) -> str | None:
    """Return a text of the source, with an ellipsis for each part that varies."""
    match node:
        case ast.Constant(value=str(text)):
            return text.replace("`", "")
        case ast.JoinedStr(values=parts):
            texts = [text_of(part) if isinstance(part, ast.Constant) else ELIDED for part in parts]
            return "".join(text or "" for text in texts)
        case _:
            return None


def messages_in(file: Path) -> Iterator[str]:
    """Yield the messages of the refusals that a module makes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if found := text_of(value):
                named.setdefault(name, []).append(found)
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="NotYetSupported"), args=[ast.Name(id=name), *_]):
                # A reason that another function gives has no text here.
                yield from named.get(name, [ELIDED])
            case ast.Call(func=ast.Name(id="NotYetSupported"), args=[first, *_]):
                found = text_of(first)
                assert found, f"{file}:{node.lineno}: give the message as a text"
                yield found
            case ast.FunctionDef(name="_unsupported"):
                yield from faults_in(node)
            case _:
                pass


def faults_in(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the settings of connectors that no job can read or write."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="ConnectorFault"), args=[first, *_]):
                found = text_of(first)
                assert found, f"line {node.lineno}: give the message as a text"
                yield found.removesuffix(" are").removesuffix(" is")
            case _:
                pass


def refusals() -> set[str]:
    files = (file for room in SOURCES for file in sorted((ROOT / room).rglob("*.py")))
    return {message for file in files for message in messages_in(file)}


def rows() -> list[str]:
    """Return the messages that the tables of the page begin with."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [found[1] for line in lines if (found := re.match(r"\| `([^`]+)` \|", line))]


def test_the_page_names_each_refusal_once_and_no_other() -> None:
    listed = rows()

    assert sorted(listed) == sorted(refusals())


def test_each_refusal_has_a_reason_and_a_way_out() -> None:
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]

    assert all(len(row) == 3 and all(row) for row in cells)
