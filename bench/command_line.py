"""Measure how long commands take that need no server.

    python -m bench.command_line [--runs 10]

Each is a process of its own; the first run of each is not counted, because it may compile modules.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.figures import load_average, quantile, report_result, show

FLIGHTS: Final = Path(__file__).parents[1] / "examples" / "flights" / "features.py"
COMMANDS: Final = {
    ("--help",): 300,
    ("--version",): 300,
    ("commit", "--help"): None,
    ("check", str(FLIGHTS)): None,
}
"""Arguments of `narthex`, and how many milliseconds they may take; None without a target."""


def milliseconds(arguments: tuple[str, ...], runs: int) -> list[float]:
    """Return the durations of some runs of a command."""
    command = [str(Path(sys.executable).with_name("narthex")), *arguments]
    took: list[float] = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append((time.perf_counter() - began) * 1000)
    return took[1:]


def main() -> int:
    """Run; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    asked = parser.parse_args()
    cases: list[dict[str, object]] = []
    for arguments, target in COMMANDS.items():
        took = milliseconds(arguments, asked.runs)
        name = " ".join(["narthex", *(Path(each).name for each in arguments)])
        p50, most = round(quantile(took, 0.5)), round(max(took))
        cases.append({"command": name, "p50_ms": p50, "most_ms": most, "target_ms": target})
    rows = [["" if cell is None else str(cell) for cell in case.values()] for case in cases]
    show("the command line", ("command", "p50 ms", "slowest ms", "target"), rows)
    result = {"bench": "command_line", "result": "ok", "load_average": load_average()}
    report_result("command_line", result | {"cases": cases})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
