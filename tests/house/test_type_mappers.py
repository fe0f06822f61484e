"""Each format has an entry for each type."""

import ast
import typing

import attrs

from narthex._ir import types
from tests.house.test_house import ROOT, place, python_files, tree_of

TYPES = typing.get_args(types.DataType)
RESTRICTED = typing.get_args(types.Restricted)


def entry_of(dtype: type) -> str:
    return "restricted" if dtype in RESTRICTED else dtype.__name__.lower()


def lacking(tree: ast.Module) -> list[tuple[int, str]]:
    required = {
        field.name for field in attrs.fields(types.TypeMapper) if field.default is attrs.NOTHING
    }
    return [
        (node.lineno, entry)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "TypeMapper"
        for entry in sorted(required - {keyword.arg for keyword in node.keywords})
    ]


def test_every_type_has_an_entry_in_a_mapper() -> None:
    entries = {field.name for field in attrs.fields(types.TypeMapper) if field.init}

    assert entries == {entry_of(dtype) for dtype in TYPES}


def test_every_format_has_an_entry_for_every_type() -> None:
    files = [*python_files(), *(ROOT / "docs").glob("*.py")]

    assert [
        f"{place(path)}:{line} lacks `{entry}`"
        for path in files
        for line, entry in lacking(tree_of(path))
    ] == []


def test_a_format_without_an_entry_is_found() -> None:
    tree = ast.parse("names = TypeMapper(int='int', float='float')")

    assert (1, "struct") in lacking(tree)
