"""Each format has an entry for each type, and no other code matches composite types."""

import ast
import typing
from collections.abc import Iterator

import attrs
import pytest

from narthex._ir import types
from tests.house.test_house import ROOT, place, python_files, tree_of

TYPES = typing.get_args(types.DataType)
RESTRICTED = typing.get_args(types.Restricted)
COMPOSITES = {"List", "Map", "Struct"}
MATCHING = {
    "core/narthex/_ir/types.py": "the one traversal of types",
    "core/narthex/_expr/type_lattice.py": "relates two types",
    "core/narthex/_expr/type_rules.py": "types the functions of structs and of dicts",
    "core/narthex/_expr/python/collections.py": "computes the functions of structs and of dicts",
    "core/narthex/_expr/python/signature.py": "converts a cell of one type to another type",
    "spark_apps/narthex_spark_apps/expressions/calls.py": "converts a column to another type",
}
"""The files that may match several composite types, with what they do instead of a format."""


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


@pytest.mark.slow
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


def matched_types(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what `case`, `isinstance`, comparisons and the keys of dicts name."""
    for node in ast.walk(tree):
        match node:
            case ast.MatchClass():
                yield node.cls
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]):
                yield classes
            case ast.Compare():
                yield from node.comparators
            case ast.Dict():
                yield from (key for key in node.keys if key is not None)
            case _:
                pass


def matched_composites(tree: ast.Module) -> set[str]:
    return COMPOSITES & {
        name.id if isinstance(name, ast.Name) else name.attr
        for expression in matched_types(tree)
        for name in ast.walk(expression)
        if isinstance(name, ast.Name | ast.Attribute)
    }


@pytest.mark.slow
def test_only_mappers_and_the_listed_files_match_composite_types() -> None:
    files = [*python_files(), *(ROOT / "docs").glob("*.py")]
    matching = {place(path) for path in files if len(matched_composites(tree_of(path))) > 1}

    assert matching == set(MATCHING)


@pytest.mark.parametrize(
    "code",
    [
        "match dtype:\n    case List():\n        pass\n    case types.Map():\n        pass",
        "isinstance(dtype, List | types.Struct)",
        "SIZES = {types.List: 1, Map: 2}[type(dtype)]",
        "type(dtype) in (List, Struct)",
    ],
)
def test_code_that_matches_composite_types_is_found(code: str) -> None:
    assert len(matched_composites(ast.parse(code))) == 2
