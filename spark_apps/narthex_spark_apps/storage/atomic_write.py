"""Files that are replaced as a whole: whoever reads one sees the old text or the new one."""

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a small file, and make it survive a crash of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
