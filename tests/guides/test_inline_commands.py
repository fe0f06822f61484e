"""The commands of `narthex` that sentences name exist."""

import re
from typing import Final

import pytest

from tests.guides.known_commands import unknown_words
from tests.guides.pages import PAGES, place

pytestmark = pytest.mark.slow

_INLINE: Final = re.compile(r"`narthex ([a-z][^`]*)`")


def test_commands_within_sentences_exist() -> None:
    unknown = [
        f"{place(page)}: `narthex {found[1]}`"
        for page in PAGES
        for found in _INLINE.finditer(page.read_text(encoding="utf-8"))
        if [*unknown_words(found[1].split())]
    ]

    assert unknown == []


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("comit", ["comit"]),
        ("keys rotat signing", ["keys rotat"]),
        ("down --wipes", ["down --wipes"]),
        ("commit FILE --massage=x --yes", ["commit --massage"]),
        ("--profile production commits --json", []),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, unknown: list[str]) -> None:
    assert [*unknown_words(line.split())] == unknown
