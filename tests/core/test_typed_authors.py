"""Authors who check their types find ours: a project with every kind of entity is sound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from narthex.cli.projects.author_files import load_file
from narthex.errors import render_report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Path(__file__).parent / "typed_project" / "shop.py"
CACHE = ROOT / ".mypy_cache" / "authors"


def test_a_typed_project_passes_a_strict_type_checker(tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings)]

    found = subprocess.run(
        [*command, "--cache-dir", str(CACHE), str(PROJECT)],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "core")},
        capture_output=True,
        text=True,
    )

    assert found.returncode == 0, found.stdout + found.stderr


def test_the_typed_project_can_be_committed() -> None:
    found = load_file(PROJECT)

    assert render_report(found.check()) == ""
