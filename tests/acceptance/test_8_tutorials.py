"""The commands of pages that need a platform work, and print what the page shows."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from narthex.client import Client
from tests.acceptance.platform import Platform
from tests.guides.pages import DOCS, README, blocks, file_of, pages_with, place, sessions, shows
from tests.guides.shell import Shell, environment

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

GUIDE: Final = DOCS / "guide"
TRAINING: Final = "docs/guide/training.md"
"""The page whose commands `test_9_training.py` runs, between its Python."""

SLOW: Final = re.compile(r"^  .* does not contain the rows yet: .*\n", re.MULTILINE)
"""The reports of `narthex log --wait` on a busy machine."""

ASKED: Final = re.compile(r"^Buyer\.orders +1$", re.MULTILINE)


class Reader:
    """A person who types the commands of a page, on a branch."""

    def __init__(self, platform: Platform, directory: Path, branch: str) -> None:
        self._directory = directory
        self._shell = Shell(
            directory=directory,
            variables=environment(platform.settings.home, NARTHEX_BRANCH=branch),
        )

    def types(self, commands: str) -> str:
        """Run the lines of a block in a shell; return what a terminal shows."""
        return self._shell.types(commands)

    def has(self, name: str, text: str) -> None:
        """Save a file of the page."""
        (self._directory / name).write_text(text, encoding="utf-8")

    def follows(self, page: Path) -> int:
        """Run the blocks that need a platform; return how many outputs the page shows."""
        found = sessions(page, "sh platform")
        for block, shown in found:
            printed = self.types(block.text)
            printed = SLOW.sub("", printed)
            assert shown is None or shows(shown, printed), f"{block.place} prints: {printed}"
        return sum(shown is not None for _, shown in found)


@pytest.fixture
def reading(platform: Platform, tmp_path: Path) -> Iterator[Callable[[str], Reader]]:
    """Make a branch of the name, and return a reader on it, in an empty directory."""

    def on(branch: str) -> Reader:
        with closing(Client(platform.settings.server_url, platform.settings.token)) as client:
            client.init_branch(branch)
        return Reader(platform, tmp_path, branch)

    return on


def test_the_quickstart_works(reading: Callable[[str], Reader]) -> None:
    reader = reading("quickstart")
    reader.types("narthex init shop && mv shop/* .")

    assert reader.follows(GUIDE / "quickstart.md") == 2


def test_the_readme_works(
    platform: Platform, tmp_path: Path, reading: Callable[[str], Reader]
) -> None:
    reader = reading("readme")
    (tmp_path / ".venv").symlink_to(sys.prefix)

    assert reader.follows(README) == 0

    with closing(Client(platform.settings.server_url, platform.settings.token, "readme")) as client:
        assert [one["name"] for one in client.read("featuresets")["featuresets"]] == ["Shopper"]  # type: ignore[union-attr,index,call-overload]


def test_the_tutorial_on_backfills_works(
    platform: Platform, reading: Callable[[str], Reader]
) -> None:
    page = DOCS / "tutorials" / "backfill.md"
    reader = reading("backfill")
    (platform.settings.files_root / "payments.csv").write_text(file_of(page, "payments.csv"))
    reader.has("features.py", blocks(page, "py")[0].text)

    assert reader.follows(page) == 4


def test_the_commands_on_deploying_work(reading: Callable[[str], Reader]) -> None:
    page = GUIDE / "deploying.md"
    reader = reading("deploying")
    (definitions,) = blocks(page, "python")
    reader.has("features.py", definitions.text)
    reader.types('narthex commit features.py -m "count orders"')

    assert reader.follows(page) == 0

    assert ASKED.search(reader.types("narthex query Buyer.orders --with Buyer.user=ann"))


def test_an_upgrade_to_the_same_release_stops_nothing(
    platform: Platform, tmp_path: Path, reading: Callable[[str], Reader]
) -> None:
    before = [one.process for one in platform.stack.status().services]

    assert reading("upgrading").follows(GUIDE / "upgrading.md") == 0

    assert [one.process for one in platform.stack.status().services] == before
    assert [*tmp_path.iterdir()] == []


def test_every_page_with_such_commands_is_run() -> None:
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    pages = [page for page in pages_with("sh platform") if place(page) != TRAINING]

    assert README in pages
    assert [place(page) for page in pages if page != README and f'"{page.name}"' not in text] == []
