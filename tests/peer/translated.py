"""Compares commits that the peer's client sent with the files that they are from.

    python -m tests.peer.translated SENT TESTS

SENT has the commits, as `send_commits.py` writes them, TESTS the unpacked tests. `import fennel` in
these means Narthex. Prints JSON: the number of entities that are equal, the names of those that
differ, and the codes of the errors by module that cannot be translated.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from narthex._base.records import DESCRIPTION
from narthex._ir.code import UserCode
from narthex._ir.entities import Definitions
from narthex._ir.operators import Drop, Select
from narthex._sdk.commit_definitions import definitions_in
from narthex.compat.fennel import install
from narthex.compat.wire import read_commit
from narthex.errors import DefinitionErrors

UNORDERED = {"assignments", "columns", "extractors", "fields", "names", "sources"}
"""Fields whose order the client does not send, or that it sorts."""

UNSENT = {"env", "python", "requires"}


def load(module: str, place: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"peers_{module}".replace(".", "_"), place)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def meaning(value: Any) -> Any:
    """Return a value without descriptions, the order that is not sent, and the text of code."""
    if isinstance(value, Select | Drop):
        return "columns left out", meaning(value.input)
    if isinstance(value, UserCode):
        return value.entry, value.source
    if isinstance(value, tuple):
        return tuple(map(meaning, value))
    if not attrs.has(type(value)):
        return value
    parts = {}
    for field in attrs.fields(type(value)):
        if field.name not in UNSENT and not DESCRIPTION.items() <= field.metadata.items():
            part = meaning(getattr(value, field.name))
            is_unordered = field.name in UNORDERED and isinstance(part, tuple)
            parts[field.name] = sorted(part, key=repr) if is_unordered else part
    return type(value).__name__, tuple(parts.items())


def by_name(definitions: Definitions) -> dict[str, Any]:
    entities: tuple[Any, ...] = (*definitions.datasets, *definitions.featuresets)
    return {entity.name: meaning(entity) for entity in entities}


def compare(sent: Path, tests: Path) -> dict[str, Any]:
    """Compare each commit with its file."""
    refused: dict[str, list[str]] = {}
    different: list[str] = []
    equal = 0
    for path in sorted(sent.iterdir()):
        module, _, env = path.name.partition(" ")
        try:
            translated = by_name(read_commit(path.read_bytes()).definitions)
        except DefinitionErrors as errors:
            refused[module] = sorted({error.code for error in errors.exceptions_flat()})
            continue
        own = load(module, tests / f"{module.replace('.', '/')}.py")
        expected = by_name(definitions_in(vars(own).values(), env=env or None))
        wrong = [name for name, entity in expected.items() if translated.get(name) != entity]
        different += [f"{module}: {name}" for name in wrong]
        equal += len(expected) - len(wrong)
    return {"equal": equal, "different": different, "refused": refused}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    install()
    sys.stdout.write(json.dumps(compare(*map(Path, sys.argv[1:]))))
