"""A plugin of pytest that records the outcome of each test, and the output of failures."""

import json
import os
from pathlib import Path
from typing import Final

import attrs
import pytest

PLACE: Final = "NARTHEX_PEER_OUTCOMES"
"""The environment variable that names the file to write."""

_found: dict[str, dict[str, object]] = {}


@attrs.frozen
class PeerOutcome:
    """How a test ended.

    Attributes:
        ended: `passed`, `failed` or `skipped`.
        said: The last line of a failure's output.
    """

    ended: str
    said: str = ""
    took_s: float = 0.0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of a test's three phases."""
    before = _found.get(report.nodeid, {"ended": "passed", "said": "", "took_s": 0.0})
    ended = before["ended"] if report.outcome == "passed" else report.outcome
    _found[report.nodeid] = {
        "ended": ended,
        "said": before["said"] or _first_line(report),
        "took_s": float(str(before["took_s"])) + report.duration,
    }


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep a file that could not be read as a failure of its own."""
    if report.failed:
        _found[report.nodeid] = {"ended": "failed", "said": _first_line(report), "took_s": 0.0}


def pytest_sessionfinish() -> None:
    """Write everything down."""
    Path(os.environ[PLACE]).write_text(json.dumps(_found, indent=1), encoding="utf-8")


def _first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = getattr(crash, "message", "") or report.longreprtext
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""


def load(file: Path) -> dict[str, PeerOutcome]:
    """Read what was written."""
    return {test: PeerOutcome(**found) for test, found in json.loads(file.read_text()).items()}
