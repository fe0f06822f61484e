"""The division of tests between processes, as a plugin of `make test`."""

import sys
import time
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import PurePath
from typing import Final

import pytest
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

IN_ORDER: Final = (PurePath("tests/acceptance"), PurePath("tests/wheels"))
"""Folders whose files one process runs, in order.

Those of the first share one platform and are a story; those of the second share the wheels, which
are built in the checkout.
"""


LONG_S: Final = 60.0
"""Tests that take longer are named while the others run."""

MARKED_APART: Final = ("acceptance", "wheels", "slow")
"""The markers whose tests are counted by themselves: `make test` runs none of them."""

LINES_OF_A_FAILURE: Final = 25
"""How many lines of a failure are written at once; its whole report follows at the end."""

_BEGAN: Final = time.monotonic()


class WholeFiles(LoadScopeScheduling):
    """Hands whole files to processes, so that the tests of a file share what they start."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        shared = next((one for one in IN_ORDER if one in PurePath(file).parents), file)
        return str(shared)


def pytest_configure(config: pytest.Config) -> None:
    """Let a process know its program: PySpark ends one without, as if it ran its own doctests."""
    if hasattr(config, "workerinput"):
        sys.modules["__main__"].__spec__ = find_spec("pytest.__main__")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    """Divide tests by files."""
    return WholeFiles(config, log)


class Notices:
    """Names each long test, and each failure, when it has ended: a run may be cut off.

    At the end it has how long the tests of each room took, and what was not tested and why.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for a long phase of a test, and what a failed phase raised."""
        room = next((one for one in MARKED_APART if one in report.keywords), None)
        self._seconds[room or "/".join(report.nodeid.split("/")[:2])] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skipped[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
        if report.duration >= LONG_S or report.failed:
            took = f"{report.duration:.0f} s: {report.when} of {report.nodeid}"
            failed = "failed, " if report.failed else ""
            self._terminal.write_line(f"\nafter {time.monotonic() - _BEGAN:.0f} s, {failed}{took}")
        if report.failed:
            lines = report.longreprtext.splitlines()
            self._terminal.write_line("\n".join(lines[-LINES_OF_A_FAILURE:]))

    def pytest_terminal_summary(self) -> None:
        """Write where the time went, in seconds of processes."""
        longest = sorted(self._seconds.items(), key=lambda one: -one[1])
        found = ", ".join(f"{room} {took:.0f}" for room, took in longest)
        self._terminal.write_line(f"seconds of processes: {found}")
        for why, count in self._skipped.most_common():
            self._terminal.write_line(f"NOT TESTED: {count} tests: {why}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write notices in the process that has a terminal."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter) and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Notices(terminal), "notices")
