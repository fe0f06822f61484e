"""The division of tests between processes, as a plugin of `make test`."""

import heapq
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Final

import pytest
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

IN_ORDER: Final = tuple(map(PurePath, ("tests/acceptance", "tests/wheels", "tests/spark_apps")))
"""Folders whose files one process runs, in order.

Those of the first share one platform and are a story; those of the second share the wheels, which
are built in the checkout; those of the last share a Spark driver.
"""


LONG_S: Final = 60.0
"""Tests that take longer are named while the others run."""

NIGHTLY: Final = "nightly"
MARKED_APART: Final = ("acceptance", "wheels", "slow", NIGHTLY)
"""The markers whose tests are counted by themselves: `make test` runs none of them."""

SECONDS: Final = Path(__file__).with_name("seconds.json")
"""How many seconds the files of `make test-all` took: only parts of it need them."""

UNKNOWN_S: Final = 30.0
"""What a file counts as that is not listed there."""

KNOWN_GAP: Final = "notimpl"
"""How the reasons of those tests begin that no machine of ours can run."""

LINES_OF_A_FAILURE: Final = 25
"""How many lines of a failure are written at once; its whole report follows at the end."""

_BEGAN: Final = time.monotonic()


class WholeFiles(LoadScopeScheduling):
    """Hands whole files to processes, so that the tests of a file share what they start."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        file = _file_of(nodeid)
        shared = next((one for one in IN_ORDER if one in PurePath(file).parents), file)
        return str(shared)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that divide a run into parts."""
    group = parser.getgroup("whole files")
    group.addoption("--part", metavar="K/N", help="run only the files of part K of N equal ones")
    group.addoption(
        "--no-gaps", action="store_true", help="fail if a test is skipped for want of a program"
    )
    group.addoption("--store-seconds", action="store_true", help=f"write {SECONDS.name} anew")


@pytest.hookimpl(trylast=True)  # after the selection by markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the files of one part."""
    if not (part := config.getoption("part")):
        return
    number, _, parts = str(part).partition("/")
    known: dict[str, float] = json.loads(SECONDS.read_text(encoding="utf-8"))
    files = {_file_of(item.nodeid) for item in items}
    kept = part_of({one: known.get(one, UNKNOWN_S) for one in files}, int(number), int(parts))
    config.hook.pytest_deselected(items=[one for one in items if _file_of(one.nodeid) not in kept])
    items[:] = [one for one in items if _file_of(one.nodeid) in kept]


def part_of(seconds: Mapping[str, float], number: int, parts: int) -> set[str]:
    """Return the files of one of so many parts, which take about equally long.

    The longest files are dealt first, each to the part that has the least (Graham's rule).

    Args:
        seconds: How long each file takes.
        number: The part, from 1 on.
        parts: How many there are.
    """
    dealt: list[tuple[float, int, set[str]]] = [(0.0, at, set()) for at in range(parts)]
    for file, took in sorted(seconds.items(), key=lambda one: (-one[1], one[0])):
        spent, at, files = heapq.heappop(dealt)
        heapq.heappush(dealt, (spent + took, at, files | {file}))
    return next(files for _, at, files in dealt if at == number - 1)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


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

    def __init__(self, terminal: pytest.TerminalReporter, *, stores: bool) -> None:
        """Begin with nothing; `stores` says whether the seconds of files are written at the end."""
        self._terminal = terminal
        self._stores = stores
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._files: defaultdict[str, float] = defaultdict(float)
        self._skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line for a long phase of a test, and what a failed phase raised."""
        room = next((one for one in MARKED_APART if one in report.keywords), None)
        self._seconds[room or "/".join(report.nodeid.split("/")[:2])] += report.duration
        if room is not None:
            self._files[_file_of(report.nodeid)] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skipped[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
        if report.duration >= LONG_S or report.failed:
            took = f"{report.duration:.0f} s: {report.when} of {report.nodeid}"
            failed = "failed, " if report.failed else ""
            self._terminal.write_line(f"\nafter {time.monotonic() - _BEGAN:.0f} s, {failed}{took}")
        if report.failed:
            lines = report.longreprtext.splitlines()
            self._terminal.write_line("\n".join(lines[-LINES_OF_A_FAILURE:]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run with `--no-gaps` that left something out which this machine could have."""
        gaps = [why for why in self._skipped if not why.startswith(KNOWN_GAP)]
        if gaps and session.config.getoption("no_gaps") and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self) -> None:
        """Write where the time went, in seconds of processes."""
        longest = sorted(self._seconds.items(), key=lambda one: -one[1])
        found = ", ".join(f"{room} {took:.0f}" for room, took in longest)
        self._terminal.write_line(f"seconds of processes: {found}")
        if self._stores:
            kept = {file: round(took) for file, took in sorted(self._files.items())}
            SECONDS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        for why, count in self._skipped.most_common():
            self._terminal.write_line(f"NOT TESTED: {count} tests: {why}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write notices in the process that has a terminal."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter) and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(
            Notices(terminal, stores=session.config.getoption("store_seconds")), "notices"
        )
