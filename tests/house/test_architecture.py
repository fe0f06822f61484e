"""The files and names on the pages for contributors exist."""

import re
from pathlib import Path

import pytest

from tests.house.test_house import ROOMS, ROOT

PAGES = (ROOT / "docs" / "architecture.md", ROOT / "docs" / "recipes.md")
_PATH = re.compile(
    r"`((?:core|ledger|stores|spark_apps|expectations|reference|proving|server|plugins|stack|tests|docs)/[^`]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_on_the_page_exists(page: Path) -> None:
    named = _PATH.findall(page.read_text(encoding="utf-8"))

    assert len(named) > len(ROOMS)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_package_of_a_room_is_in_the_index_of_its_room() -> None:
    missing = [
        f"{room}: {package.name}"
        for room in ROOMS
        for top in (ROOT / room).glob("narthex*")
        if top.is_dir()
        for package in sorted(top.iterdir())
        if (package / "__init__.py").is_file()
        and not package.name.startswith("_")
        and package.name not in (top / "__init__.py").read_text(encoding="utf-8")
    ]

    assert missing == []
