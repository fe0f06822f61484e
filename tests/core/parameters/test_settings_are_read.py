"""Every setting that a definition stores is read by code that runs.

`test_public_parameters` shows that a parameter reaches the definition. This test shows for each
setting of sources, sinks, connectors and windows that a room, not only a check, reads it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import pytest

from narthex._connectors.registry import kinds
from narthex._ir import entities, windows

ROOT: Final = Path(__file__).parents[3]
RUNS: Final = (
    *("spark_apps", "stores", "server", "reference", "proving"),
    *(f"core/narthex/{part}" for part in ("_aggregates", "_compiler", "_connectors", "_query")),
    *(f"core/narthex/{part}" for part in ("_ir", "_runtime")),
)
"""The directories whose code runs definitions; checks and authors' calls are in others."""

RESOLVED: Final = frozenset({"env", "origin"})
"""Settings that a commit resolves: it has the sources of its env, and errors have a place."""

RECORDS: Final = (
    *(entities.Source, entities.Sink, entities.Sample),
    *(windows.Continuous, windows.Tumbling, windows.Hopping, windows.Session),
    *dict.fromkeys(kind.record for kind in kinds()),
)
REFUSED: Final = {
    "Continuous.max_error": "refused at the commit, as windows are exact",
}
"""Settings that no code reads, as the platform refuses them."""


@cache
def _read() -> frozenset[str]:
    """Return all attributes that code in `RUNS` reads."""
    return frozenset(name for room in RUNS for name in _attributes(ROOT / room))


def _attributes(room: Path) -> Iterator[str]:
    for file in sorted(room.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                yield node.attr


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_setting_is_read_where_definitions_run(record: type[attrs.AttrsInstance]) -> None:
    unread = {
        f"{record.__name__}.{field.name}"
        for field in attrs.fields(record)
        if field.name not in RESOLVED and field.name not in _read()
    }

    assert unread - REFUSED.keys() == set()
