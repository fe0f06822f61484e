"""Every block of commands has a mark for how it is run, and a test that runs it."""

import re
import subprocess
from typing import Final

import pytest

from tests.cases import every
from tests.guides.pages import PAGES, ROOT, blocks, pages_with

pytestmark = pytest.mark.slow

RUN_BY: Final = {
    "run": "tests/server/test_guide.py",
    "platform": "tests/acceptance",
    "down": "tests/acceptance/test_z_down.py",
    "backup": "tests/stack/operator/test_backups.py",
    "wheels": "tests/wheels",
    "demo": "tests/stack/test_demos.py",
    "ci": "tests/guides/test_ci.py",
    "alone": "tests/guides/test_alone.py",
    "rows": "tests/server/data",
    "traces": "tests/server/tracing",
    "sso": "tests/server/sso/test_login_command.py",
    "prometheus": "tests/server/operations/test_monitoring.py",
    "pip": "tests/guides/test_alone.py",
    "airflow": "tests/plugins/test_commands_of_airflow.py",
    "kubernetes": "tests/stack/test_helm_installed.py",
}
MARKS: Final = {*RUN_BY}
_COMMAND: Final = re.compile(
    r"^(\$ |(export|make|narthex|pip|uv|airflow|kubectl|helm|docker|python|pytest|cd) )",
    re.MULTILINE,
)


def test_every_block_of_commands_has_a_mark() -> None:
    unmarked = [
        f"{block.place}: {block.mark}"
        for page in PAGES
        for block in blocks(page)
        if block.mark.partition(" ")[0] in {"sh", "bash", "shell", "console"}
        and block.mark not in {f"sh {how}" for how in MARKS}
    ]

    assert unmarked == [], f"mark each of them `sh` and one of {sorted(MARKS)}"


def test_no_command_is_in_a_block_without_a_mark() -> None:
    found = [
        block.place
        for page in PAGES
        for block in blocks(page, "", "text")
        if _COMMAND.search(block.text)
    ]

    assert found == []


@every("how", sorted(MARKS))
def test_each_mark_has_blocks_and_a_test_that_runs_them(how: str) -> None:
    path = ROOT / RUN_BY[how]
    files = [path] if path.is_file() else sorted(path.glob("*.py"))

    assert pages_with(f"sh {how}")
    assert any(f'"sh {how}"' in file.read_text(encoding="utf-8") for file in files)


def test_commands_have_the_syntax_of_a_shell() -> None:
    every = [
        block for page in PAGES for block in blocks(page, *(f"sh {how}" for how in sorted(MARKS)))
    ]
    script = "\n".join(
        f"f{number}() {{\n: {block.place}\n{block.text}}}" for number, block in enumerate(every)
    )

    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
