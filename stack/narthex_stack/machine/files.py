"""Files of JSON objects, and the ends of logs."""

import json
from pathlib import Path
from typing import TypeAlias

from narthex._base import atomic_write

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
"""A JSON value."""


def store_json(path: Path, value: Json) -> None:
    """Replace a JSON file atomically; only this account may read it."""
    atomic_write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def load_object(path: Path) -> dict[str, Json]:
    """Read a JSON object; a missing file counts as an empty object."""
    try:
        found: Json = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def tail(path: Path, *, lines: int) -> str:
    """Read the last lines of a log; empty if the file is missing."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
