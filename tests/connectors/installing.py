"""Install a package that adds a kind of connector: its folder and its entry point."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from narthex._connectors.registry import GROUP, kinds

FOLDER = Path(__file__).parent
LINE_FILES = FOLDER / "line_files"


def entry_points_of(package: Path) -> dict[str, str]:
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    points: dict[str, str] = project["project"]["entry-points"][GROUP]
    return points


def write_distribution(site: Path, name: str, points: dict[str, str]) -> None:
    """Write the metadata that an installer writes for a package."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@contextmanager
def installed(
    site: Path, name: str = "line-files", points: dict[str, str] | None = None
) -> Iterator[None]:
    """Install a package for the time of the block."""
    write_distribution(site, name, entry_points_of(LINE_FILES) if points is None else points)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.syspath_prepend(str(FOLDER))
        kinds.cache_clear()
        try:
            yield
        finally:
            kinds.cache_clear()
