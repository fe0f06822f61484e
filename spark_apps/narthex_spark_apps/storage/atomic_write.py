"""Atomic replacement of files: a reader sees the old text or the new one."""

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Replace a small file atomically and durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
