"""`make peer`: runs the 150 tests that Fennel shipped with its client, unmodified, on Narthex.

python -m tests.peer [-- PYTEST ARGUMENTS]

Exits with 1 when the outcome is not the one that `reasons.toml` accounts for.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.peer.outcomes import PLACE, load
from tests.peer.verdict import Verdict, judge, load_reasons
from tests.peer.wheel import TESTS, cache, fetch, unpack

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build" / "peer"
REASONS: Final = Path(__file__).with_name("reasons.toml")


def run(arguments: Sequence[str]) -> Path:
    """Run the tests in a separate process; return the file of their outcomes.

    The plugin for skipping is off: a test that the peer skips runs here. They run as of the day
    of their release, on which the ages that one of them holds were right.
    """
    unpack(fetch(cache()), BUILD)
    outcomes = BUILD / "outcomes.json"
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), PLACE: str(outcomes)}
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(BUILD)]
    command += ["-p", "narthex.compat.fennel", "-p", "tests.peer.outcomes"]
    command += ["-p", "tests.peer.release_day"]
    command += ["-p", "no:skipping", "-p", "no:cacheprovider", "-q", "--tb=short"]
    command += ["--disable-warnings", "--no-summary", *(arguments or [TESTS])]
    subprocess.run(command, cwd=BUILD, env=environment, check=False)
    return outcomes


def report(verdict: Verdict, took_s: float) -> None:
    """Print the table of what did not pass, and the figures."""
    table = Table("test", "", "why", title="Tests of the peer's that do not pass here")
    for test, reason in verdict.explained.items():
        table.add_row(test.removeprefix(TESTS), reason.kind, reason.sentence)
    for test, outcome in verdict.unexplained.items():
        table.add_row(test.removeprefix(TESTS), f"[red]{outcome.ended}[/red]", outcome.said)
    console = Console(width=160)
    console.print(table)
    share = len(verdict.passed) / max(verdict.count, 1)
    console.print(
        f"{len(verdict.passed)} of {verdict.count} pass ({share:.1%}), "
        f"{len(verdict.explained)} for a reason, {len(verdict.unexplained)} without; {took_s:.0f} s"
    )


def main(arguments: Sequence[str]) -> int:
    """Run and report; return whether all outcomes are as listed."""
    began = time.monotonic()
    outcomes = load(run(arguments))
    verdict = judge(outcomes, load_reasons(REASONS))
    report(verdict, time.monotonic() - began)
    objections = list(verdict.objections())
    for objection in objections:
        sys.stderr.write(f"{objection}\n")
    return 1 if objections else 0


if __name__ == "__main__":
    raise SystemExit(main([argument for argument in sys.argv[1:] if argument != "--"]))
