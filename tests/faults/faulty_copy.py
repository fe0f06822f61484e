"""A copy of the checkout with an environment of its own, in which a fault can be switched on."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final, Self

import attrs

from narthex._processes import ProcessGroup
from tests.faults.faults import ROOT, Fault

_FAILED: Final = re.compile(r"^FAILED (\S+::[^\s\[]+(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)
_BROKEN: Final = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError")
"""Failures that show a fault that is written wrong, and not its effect."""
_WITHOUT: Final = ("site", "audit")
"""Environments inside the environment, which no test uses."""
_PASSED, _FAILED_TESTS, _NO_TESTS = 0, 1, 5


@attrs.frozen(kw_only=True)
class TestRun:
    """The outcome of a run of tests.

    Attributes:
        failed: The first test that failed; empty without one.
        message: The first line of its failure, why the run proves nothing, or which tests were
            skipped.
        is_green: Whether all tests that were selected passed; also without any.
        seconds: How long the run took.
    """

    __test__ = False

    failed: str = ""
    message: str = ""
    is_green: bool = False
    seconds: float = 0.0


@attrs.frozen
class FaultyCopy:
    """A copy of the files of the checkout, and of its environment.

    All processes that tests start from the copy import the copy's rooms, whatever environment
    variables they get: the environment itself names them.
    """

    root: Path

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Self]:
        """Copy the checkout below its directory `build`; delete the copy at the end."""
        build = ROOT / "build"
        build.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="faults-", dir=build) as directory:
            root = Path(directory)
            root.chmod(0o755)  # sandboxed workers, which run as nobody, read libraries there
            copied = cls(root)
            copied._copy_files()
            copied._copy_environment()
            yield copied

    def _copy_files(self) -> None:
        listed = subprocess.run(
            ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)

    def _copy_environment(self) -> None:
        """Link the files of the environment; those that name the checkout name the copy."""
        whole = Path(sys.prefix)
        environment = self.root / ".venv"
        shutil.copytree(
            whole,
            environment,
            symlinks=True,
            copy_function=os.link,
            ignore=lambda at, names: [n for n in names if at == str(whole) and n in _WITHOUT],
        )
        for path in (*environment.glob("lib/*/site-packages/*.pth"), *environment.glob("bin/*")):
            if path.is_file() and not path.is_symlink():
                self._rename(path)

    def _rename(self, path: Path) -> None:
        content, here = path.read_bytes(), str(ROOT).encode()
        if here in content:
            mode = path.stat().st_mode
            path.unlink()  # the checkout's environment has the same file
            path.write_bytes(content.replace(here, str(self.root).encode()))
            path.chmod(mode)

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        """Switch a fault on during the block.

        Raises:
            MisplacedFaultError: Its place is not in its file.
        """
        path = self.root / fault.file
        text = path.read_text(encoding="utf-8")
        self._write(path, fault.put_into(text))
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        with suppress(FileNotFoundError):
            # It could pass for compiled from a text of the same length within the same second.
            Path(cache_from_source(str(path))).unlink()

    def run(self, tests: Sequence[str], *, markers: str, within_s: float) -> TestRun:
        """Run those of some tests that have markers, until the first one fails.

        A failure counts only if a test that was collected failed; so an error of a fixture, of an
        import or of the time limit finds nothing.
        """
        log = self.root / "build" / "tests.log"
        log.unlink(missing_ok=True)
        python = str(self.root / ".venv" / "bin" / "python")
        options = ("-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "--maxfail=1")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
        }
        began = time.monotonic()
        pytest = ProcessGroup.start(
            (python, "-m", "pytest", *options, "-m", markers, *tests),
            environment={**environment, "COLUMNS": "1000"},
            log=log,
            cwd=self.root,
        )
        try:
            pytest.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            return TestRun(message=f"took more than {within_s:.0f} s", seconds=within_s)
        finally:
            pytest.kill()
        run = judged(pytest.popen.returncode, log.read_text(encoding="utf-8", errors="replace"))
        return attrs.evolve(run, seconds=time.monotonic() - began)


def judged(status: int, output: str) -> TestRun:
    """Judge a run of pytest by its exit status and its output."""
    if status in {_PASSED, _NO_TESTS}:
        skipped = [line for line in output.splitlines() if line.startswith("SKIPPED ")]
        return TestRun(is_green=True, message=" ".join(skipped))
    found = _FAILED.search(output) if status == _FAILED_TESTS else None
    if found is None:
        return TestRun(message=f"no test failed: {' | '.join(output.splitlines()[-3:])}")
    test, message = found[1], found[2] or ""
    if message.startswith(_BROKEN):
        return TestRun(message=f"{test}: {message}")
    return TestRun(failed=test, message=message)
