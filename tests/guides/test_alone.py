"""Commands that need no server are run in a directory with what the page tells a reader to have."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.core.tiny_wheels import tiny_wheel
from tests.guides.pages import DOCS, PAGES, blocks, commands, only_block, pages_with, place
from tests.guides.terminal import Terminal
from tests.peer.wheel import REQUIREMENT, cache, fetch

pytestmark = pytest.mark.slow

FENNEL: Final = """
from datetime import datetime

from fennel.datasets import dataset, field


@dataset
class Payments:
    user_id: int
    paid_at: datetime = field(timestamp=True)


def test_fennel_is_narthex():
    assert Payments.__module__ and dataset.__module__.startswith("narthex")


if __name__ == "__main__":
    print(dataset.__module__)
"""
"""The code of a user of Fennel: a test, and a script."""


def have_fennel_code(here: Path, _: pytest.MonkeyPatch) -> None:
    for name in ("tests/test_payments.py", "script.py", "package/module.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(FENNEL, encoding="utf-8")
    (here / "package" / "__init__.py").touch()


def have_policies(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = here / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("NARTHEX_HOME", str(home))
    present, new, _ = (block.text for block in blocks(DOCS / "guide" / "policy.md", "toml"))
    (home / "policy.toml").write_text(present, encoding="utf-8")
    (here / "new.toml").write_text(new, encoding="utf-8")


def have_wheels(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an environment of its own, and an index on this machine, be the reader's."""
    tiny_wheel(here / "index", "small-package", "1.0", {"small_package.py": "ONE = 1\n"})
    (here / "requirements.in").write_text("small-package\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", here / "venv"], check=True)
    for name, value in {
        "VIRTUAL_ENV": here / "venv",
        "UV_FIND_LINKS": here / "index",
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": here / "cache",
    }.items():
        monkeypatch.setenv(name, str(value))


def fennel_was_shadowed(_: Path, terminal: Terminal) -> None:
    of_tests, of_script, of_module = terminal.said.values()
    assert "1 passed" in of_tests
    assert of_script.startswith("narthex.")
    assert of_module == of_script


def policies_were_printed(_: Path, terminal: Terminal) -> None:
    assert "db.internal:5432" in terminal.said["narthex policy show"]


def package_was_installed(here: Path, _: Terminal) -> None:
    assert "small-package==1.0 \\\n    --hash=sha256:" in (here / "requirements.lock").read_text()
    assert [*here.glob("venv/lib/python*/site-packages/small_package.py")]


Prepare = Callable[[Path, pytest.MonkeyPatch], None]
Judge = Callable[[Path, Terminal], None]
LOCKS: Final = "docs/guide/projects.md"
"""The page whose commands lock and install packages."""

ALONE: Final[dict[str, tuple[Prepare, Judge]]] = {
    "docs/guide/migrating.md": (have_fennel_code, fennel_was_shadowed),
    "docs/guide/policy.md": (have_policies, policies_were_printed),
    LOCKS: (have_wheels, package_was_installed),
}
"""For each page: what a reader has before, and what is true afterwards."""


def test_every_page_with_such_commands_is_run() -> None:
    assert [place(page) for page in pages_with("sh alone")] == [*ALONE]


def pages() -> list[object]:
    return [
        pytest.param(
            page, id=place(page), marks=[pytest.mark.wheels] if place(page) == LOCKS else []
        )
        for page in PAGES
        if place(page) in ALONE
    ]


@pytest.mark.parametrize("page", pages())
def test_the_commands_of_a_page_work_without_a_server(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, judge = ALONE[place(page)]
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path, monkeypatch)
    terminal = Terminal(monkeypatch=monkeypatch)

    terminal.follows(page, "sh alone")

    judge(tmp_path, terminal)


@pytest.mark.wheels
def test_fennels_client_is_uninstalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to pip's question is yes; the environment has nothing else."""
    block = only_block("sh pip")
    (command,) = (command.text for command in commands(block.text))
    programs = tmp_path / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = ("install", "--quiet", "--no-deps", "--no-index", fetch(cache()))
    subprocess.run([programs / "python", "-m", "pip", *install], check=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    assert (packages / "fennel" / "client").is_dir()
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    terminal = Terminal(monkeypatch=monkeypatch, typed={command: "y\n"}, programs=programs)

    terminal.types(block)

    name, _, version = REQUIREMENT.partition("==")
    assert terminal.said[command].endswith(f"Successfully uninstalled {name}-{version}\n")
    assert not (packages / "fennel").exists()
