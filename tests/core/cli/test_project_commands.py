"""`narthex init` and `narthex dev`, and the completion of commands, as programs of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from narthex.cli.command_list import COMMANDS

FILES = ["features.py", "narthex.toml", "pyproject.toml", "tests/test_features.py"]
QUICKSTART = Path(__file__).parents[3] / "docs" / "guide" / "quickstart.md"
PROGRAM = [sys.executable, "-m", "narthex.cli"]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NARTHEX_HOME": str(directory / "no-home")},
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("new")
    done = run(directory, "init", "shop")
    assert done.stdout.splitlines() == [f"shop/{name}" for name in FILES]
    assert "cd shop" in done.stderr
    return directory / "shop"


@pytest.mark.slow
def test_a_new_project_is_sound_tested_and_typed(shop: Path) -> None:
    done = run(shop, "dev", "--once", "--no-plan")

    assert done.returncode == 0, done.stderr
    assert "2 datasets, 1 featureset: sound" in done.stderr
    assert "1 passed" in done.stdout
    checks = (["mypy", "--strict", "--config-file=", "."], ["ruff", "check", "--isolated", "."])
    for check in checks:
        checked = subprocess.run(
            [sys.executable, "-m", *check], cwd=shop, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout


def test_the_quickstart_has_the_definitions_of_a_new_project(shop: Path) -> None:
    code = (shop / "features.py").read_text().partition('"""\n\n')[2]

    assert f"```python\n{code}```" in QUICKSTART.read_text()


def test_no_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text("# mine\n")

    done = run(tmp_path, "init")

    assert done.returncode == 1
    assert "nothing was written, because `features.py` exists" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["features.py"]
    assert (tmp_path / "features.py").read_text() == "# mine\n"


def test_steps_after_one_that_failed_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "narthex.toml").write_text('file = "features.py"\ntests = "tests"\n')
    (tmp_path / "features.py").write_text("from narthex.datasets import nothing\n")

    done = run(tmp_path, "dev", "--once")

    assert done.returncode == 1
    assert "-- check: failed" in done.stderr
    assert "-- tests" not in done.stderr


def wait_until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


@pytest.mark.slow
def test_a_change_is_checked_until_it_is_stopped(tmp_path: Path) -> None:
    assert run(tmp_path, "init", ".").returncode == 0
    (tmp_path / "narthex.toml").write_text('file = "features.py"\n')
    source = tmp_path / "features.py"

    with watched(tmp_path) as told:
        source.write_text(source.read_text().replace('col("amount")', 'col("amont")'))
        wait_until(lambda: "column `amont` not found" in told())


@pytest.mark.slow
def test_a_change_of_a_data_file_is_checked_and_tested(tmp_path: Path) -> None:
    """The file is read in the tests only, above FILE; another file beside it changes nothing."""
    assert run(tmp_path, "init", ".").returncode == 0
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("good\n")
    (tmp_path / "definitions").mkdir()
    (tmp_path / "features.py").rename(tmp_path / "definitions" / "features.py")
    (tmp_path / "narthex.toml").write_text('file = "definitions/features.py"\ntests = "tests"\n')
    (tmp_path / "tests" / "test_features.py").write_text(
        "from narthex.lib import data_file\n\n"
        'WORDS = data_file("../data/words.txt")\n\n'
        'def test_words() -> None:\n    assert WORDS.read_text() == "good\\n"\n'
    )

    with watched(tmp_path) as told:
        assert "-- tests: done" in told()
        (tmp_path / "data" / "other.txt").write_text("bad\n")
        time.sleep(1.0)
        assert told().count("-- check: done") == 1
        (tmp_path / "data" / "words.txt").write_text("bad\n")
        wait_until(lambda: "-- tests: failed" in told())
        assert told().count("-- check: done") == 2
        wait_until(lambda: told().count("waiting for changes") == 2)
        (tmp_path / "data" / "words.txt").write_text("good\n")
        wait_until(lambda: told().count("-- tests: done") == 2)


@contextmanager
def watched(directory: Path) -> Iterator[Callable[[], str]]:
    """Run `narthex dev` until it waits for changes; yield a function that reads its messages."""
    told = directory / "told.txt"
    with told.open("wb") as stderr:
        process = subprocess.Popen(
            [*PROGRAM, "dev", "--no-plan"],
            cwd=directory,
            stderr=stderr,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            wait_until(lambda: "waiting for changes" in told.read_text())
            time.sleep(1.0)  # the watch begins after the message
            yield told.read_text
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(30.0)

    assert code in {0, 130}
    assert "Traceback" not in told.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_of_commands_and_options_are_completed(tmp_path: Path, shell: str) -> None:
    def completed(words: str, count: int) -> str:
        asked = {
            "_NARTHEX_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": words.rsplit(maxsplit=1)[-1],
        }
        return subprocess.run(
            [Path(sys.executable).parent / "narthex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **asked},
        ).stdout

    all_that_begin = [name for name in COMMANDS if name.startswith("com")]
    shown = completed("narthex com", 1)
    assert all(name in shown for name in all_that_begin)
    assert "rollback" not in shown
    assert "--expect-plan" in completed("narthex commit --exp", 2)
    assert "--featureset" in completed("narthex commits --feat", 2)
