"""`narthex.testing` is a door: what it opens to is found by an entry point."""

import importlib
import re
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from narthex_reference.inprocess import MockClient

ROOT = Path(__file__).resolve().parents[3]


def _entry_points() -> dict[str, dict[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, dict[str, str]] = project["entry-points"]
    return found


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `narthex.testing`, with what the project installs installed."""
    lines = [f"{name} = {target}" for name, target in _entry_points()["narthex.testing"].items()]
    known = tmp_path / "door-0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: door\nVersion: 0\n")
    (known / "entry_points.txt").write_text("\n".join(["[narthex.testing]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "narthex.testing", raising=False)
    return importlib.import_module("narthex.testing")


def test_the_door_finds_the_client_by_its_entry_point(door: ModuleType) -> None:
    assert door.MockClient is MockClient
    assert door.almost_equal(1.0, 1.0 + 1e-7)
    assert not door.almost_equal(1.0, 1.1)


def test_a_missing_engine_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    monkeypatch.delitem(sys.modules, "narthex.testing", raising=False)

    with pytest.raises(ImportError, match="pip install --force-reinstall narthex"):
        importlib.import_module("narthex.testing")


def test_pytest_finds_the_fixture_by_its_entry_point() -> None:
    target = _entry_points()["pytest11"]["narthex"]

    assert hasattr(importlib.import_module(target), "mock_client")


@pytest.mark.usefixtures("door")
def test_the_guides_own_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "guide" / "unit-tests.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "guide_page.py").write_text(code, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "guide_page", raising=False)

    module = importlib.import_module("guide_page")

    test: Callable[[], None] = module.test_a_day_later_nothing_was_spent
    test()
