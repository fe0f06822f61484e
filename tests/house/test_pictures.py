"""Pictures in guides exist, are small, and have alternative texts."""

import re
from pathlib import Path

import pytest

from tests.server.console.guide_pictures import GUIDES, MOST_BYTES, PICTURES, ROOT

pytestmark = pytest.mark.slow

_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def shown() -> list[tuple[str, Path]]:
    """Return the alternative text and the file of each picture in a page."""
    return [
        (text, (page.parent / target).resolve())
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for text, target in _PICTURE.findall(page.read_text(encoding="utf-8"))
    ]


def test_each_picture_is_of_a_page_and_each_is_in_a_guide() -> None:
    files = {PICTURES / f"{name}.webp" for name in GUIDES}

    assert set(PICTURES.iterdir()) == files
    assert {one for _, one in shown()} == files


def test_a_picture_has_a_sentence_for_people_who_do_not_see_it() -> None:
    short = [file.name for text, file in shown() if len(text) < 40 or not text.endswith(".")]

    assert short == []


def test_pictures_are_small() -> None:
    sizes = {one.name: one.stat().st_size for one in PICTURES.iterdir()}

    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
