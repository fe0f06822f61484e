"""Secrets as a manager mounts them for jobs: a file each."""

from collections.abc import Mapping
from pathlib import Path


def mount(directory: str | Path, secrets: Mapping[str, str]) -> None:
    """Put values where jobs look for them."""
    for name, value in secrets.items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
