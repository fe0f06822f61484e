"""Measure how long commands take to start.

    python -m bench.command_line [--runs 10]

Each is a process of its own; the first run of each is not counted, because it may compile modules.
The help of every command is tried, and that of the slowest ones measured like the others. `commits`
asks a server of this process that has none.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from typing_extensions import override

from bench.figures import load_average, quantile, report_result, show
from docs.render_commands import commands

FLIGHTS: Final = Path(__file__).parents[1] / "examples" / "flights" / "features.py"
COMMANDS: Final = {
    ("--help",): 300,
    ("--version",): 300,
    ("check", str(FLIGHTS)): None,
    ("commits",): None,
}
"""Arguments of `narthex`, and how many milliseconds they may take; None without a target."""

HELP_MS: Final = 300
"""How many milliseconds the help of a command may take."""

TRIED: Final = 2
"""How often the help of each command is run to find the slowest ones."""

SLOWEST: Final = 5
"""How many of them are measured."""


class _NoCommits(BaseHTTPRequestHandler):
    """Answers that a branch has no commits."""

    def do_GET(self) -> None:
        body = b'{"commits": []}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Answer on this machine; the value is the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _NoCommits) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def milliseconds(
    arguments: tuple[str, ...], runs: int, environment: Mapping[str, str]
) -> list[float]:
    """Return the durations of some runs of a command."""
    command = [str(Path(sys.executable).with_name("narthex")), *arguments]
    took: list[float] = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=dict(environment))
        took.append((time.perf_counter() - began) * 1000)
    return took[1:]


def slowest_help(environment: Mapping[str, str]) -> tuple[int, list[tuple[str, ...]]]:
    """Return how many commands there are, and those whose help takes longest."""
    helps = [(*words, "--help") for words, _ in commands()]
    took = {each: min(milliseconds(each, TRIED, environment)) for each in helps}
    return len(helps), sorted(helps, key=took.__getitem__, reverse=True)[:SLOWEST]


def main() -> int:
    """Run; print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    asked = parser.parse_args()
    cases: list[dict[str, object]] = []
    with served() as url:
        environment = {**os.environ, "NARTHEX_URL": url}
        count, helps = slowest_help(environment)
        for arguments, target in {**COMMANDS, **dict.fromkeys(helps, HELP_MS)}.items():
            took = milliseconds(arguments, asked.runs, environment)
            name = " ".join(["narthex", *(Path(each).name for each in arguments)])
            p50, most = round(quantile(took, 0.5)), round(max(took))
            cases.append({"command": name, "p50_ms": p50, "most_ms": most, "target_ms": target})
    rows = [["" if cell is None else str(cell) for cell in case.values()] for case in cases]
    title = f"the command line: {count} commands, the help of the {len(helps)} slowest last"
    show(title, ("command", "p50 ms", "slowest ms", "target"), rows)
    result = {"bench": "command_line", "result": "ok", "load_average": load_average()}
    report_result("command_line", result | {"commands": count, "cases": cases})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
