"""Commands of the checkout itself, which CI runs on a fresh clone before and with this suite."""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.guides.pages import PAGES, ROOT, Block, blocks
from tests.guides.shell import Shell
from tests.whole_files import part_of

CI: Final = ROOT / ".ci" / "run"
LISTS: Final = "make"
ACTIVATES: Final = ". .venv/bin/activate"
RUN_HERE: Final = (LISTS, ACTIVATES)
MARKED: Final = [block for page in PAGES for block in blocks(page, "sh ci")]


def lines_of(text: str) -> list[str]:
    """Return the lines of a script, without comments and spaces between words."""
    split = (shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines())
    return [shlex.join(words) for words in split if words]


@pytest.mark.parametrize("block", MARKED, ids=lambda block: block.place)
def test_ci_runs_each_command_on_a_fresh_clone(block: Block) -> None:
    ran = lines_of(CI.read_text(encoding="utf-8"))
    missing = [
        command
        for command in lines_of(block.text)
        if command not in RUN_HERE and not any(f"{line} ".startswith(f"{command} ") for line in ran)
    ]

    assert missing == [], f"{block.place}: `.ci/run` has no such line"


def test_make_alone_lists_the_commands_of_the_pages() -> None:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    named = {
        command.split()[1] for block in MARKED for command in lines_of(block.text) if " " in command
    } - {".venv/bin/activate"}
    assert LISTS in {command for block in MARKED for command in lines_of(block.text)}

    listed = Shell(directory=ROOT, variables=outside).prints(LISTS)

    assert named >= {"setup", "check", "test"}
    assert named <= set(re.findall(r"^  make (\S+) +\S", listed, re.MULTILINE))


def test_the_environment_is_activated_by_the_line_of_the_page(tmp_path: Path) -> None:
    (activating,) = (
        command for block in MARKED for command in lines_of(block.text) if command == ACTIVATES
    )
    (tmp_path / ".venv").symlink_to(sys.prefix)
    shell = Shell(directory=tmp_path, variables={"PATH": os.environ["PATH"]})

    found = shell.prints(f"{activating}\ncommand -v narthex")

    assert Path(found.strip()).resolve() == Path(sys.prefix, "bin", "narthex").resolve()


def test_the_parts_of_a_run_have_each_file_once_and_take_about_equally_long() -> None:
    seconds = {f"tests/test_{at}.py": float(7 * at % 90 + 1) for at in range(80)}
    parts = [part_of(seconds, number, 10) for number in range(1, 11)]
    took = [sum(seconds[file] for file in part) for part in parts]

    assert sorted(file for part in parts for file in part) == sorted(seconds)
    assert max(took) - min(took) < max(seconds.values()) / 2
