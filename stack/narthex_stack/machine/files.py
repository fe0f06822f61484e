"""Small files that are written atomically."""

import json
import os
import tempfile
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
"""A JSON value."""


def store_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file atomically: a reader sees the old text or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(mode)
    Path(name).replace(path)


def store_json(path: Path, value: Json) -> None:
    """Replace a JSON file atomically; only this account may read it."""
    store_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


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
