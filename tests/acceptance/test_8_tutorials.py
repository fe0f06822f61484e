"""The commands of tutorials that need a platform print what the page shows."""

import itertools
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from narthex.client import Client
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_BLOCK: Final = re.compile(r"^``` *([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHANGING: Final = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9T:.-]{20,}Z")
"""Ids and instants, which differ each time."""


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(one[1].strip(), one[2]) for one in _BLOCK.finditer(page.read_text("utf-8"))]


def steady(text: str) -> list[str]:
    return [_CHANGING.sub("…", line.rstrip()) for line in text.splitlines()]


class Reader:
    """A person who types the commands of a page, on a branch."""

    def __init__(self, platform: Platform, directory: Path, branch: str) -> None:
        home = str(platform.settings.home)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self._directory = directory
        self._environment = os.environ | {
            "NARTHEX_HOME": home,
            "NARTHEX_BRANCH": branch,
            "COLUMNS": "100",
            "PATH": path,
        }

    def types(self, commands: str) -> str:
        """Run the lines of a block in a shell; return what a terminal shows."""
        done = subprocess.run(
            ["bash", "-c", f"set -e -o pipefail\n{commands}"],
            cwd=self._directory,
            env=self._environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMIT_S,
        )
        assert done.returncode == 0, f"{commands}: {done.stdout}"
        return done.stdout

    def follows(self, page: Path) -> int:
        """Run the blocks that need a platform; return how many outputs the page shows.

        Rows become visible soon after they were accepted: a block that asks for them is repeated
        without the command that sends them.
        """
        compared = 0
        for (mark, commands), (after, shown) in itertools.pairwise([*blocks(page), ("", "")]):
            if mark != "sh platform":
                continue
            printed = self.types(commands)
            if after == "text output":
                compared += 1
                self._wait_for(commands, printed, shown)
        return compared

    def _wait_for(self, commands: str, printed: str, shown: str) -> None:
        asks = commands[commands.find("narthex query") :] if "narthex query" in commands else ""
        sent = printed.partition("feature ")[0]
        wanted = steady(shown)

        def seen() -> list[str]:
            return steady(sent + self.types(asks))

        if steady(printed) != wanted:
            assert asks, printed
            wait_until(lambda: seen() == wanted, within_s=STREAM_S, so_far=seen)


@pytest.mark.parametrize(
    ("page", "outputs"), [("guide/quickstart.md", 1), ("tutorials/backfill.md", 3)]
)
def test_the_commands_of_a_tutorial_print_what_it_shows(
    platform: Platform, tmp_path: Path, page: str, outputs: int
) -> None:
    branch = Path(page).stem
    with closing(Client(platform.settings.server_url, platform.settings.token)) as client:
        client.init_branch(branch)
    reader = Reader(platform, tmp_path, branch)
    if branch == "quickstart":
        reader.types("narthex init shop && mv shop/* .")
    else:
        text = (DOCS / page).read_text("utf-8")
        (archive,) = re.findall(r"^```csv payments.csv\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        (platform.settings.files_root / "payments.csv").write_text(archive)
        definitions = next(code for mark, code in blocks(DOCS / page) if mark == "py")
        (tmp_path / "features.py").write_text(definitions)

    assert reader.follows(DOCS / page) == outputs
