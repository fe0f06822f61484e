"""Write one Markdown page of all bench results, with tables and figures.

    python -m bench.report [--to build/bench/report]

A bench stores its last result and its single measurements below `build/bench`; the page omits
benches that did not run. `load average` shows how busy the machine was: the figures of a busy
machine mean little.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures import RAW
from bench.peers import peers_python
from bench.running import say

PAGE = "README.md"


def page(results: Mapping[str, Mapping[str, object]], figures: set[str]) -> str:
    """Write the page of results, by name of the bench."""
    lines = ["# What was measured", ""]
    for name, result in sorted(results.items()):
        lines += [f"## {name}", ""]
        if name in figures:
            lines += [f"![{name}]({name}.svg)", ""]
        lines += ["| what | seen |", "|---|---|"]
        lines += [f"| {what} | {value} |" for what, value in _flat(result)]
        lines.append("")
    return "\n".join(lines)


def _flat(result: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in result.items():
        if name in {"bench", "raw"}:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}, ")
        else:
            yield f"{before}{name}".replace("_", " "), value


def main() -> int:
    """Write the page; exit with 1 if no bench has stored a result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=RAW / "report", help="the directory to write the page to"
    )
    to: Path = parser.parse_args().to
    results = {path.stem: json.loads(path.read_text()) for path in sorted(RAW.glob("*.json"))}
    if not results:
        say("no bench has stored a result; run one, such as `python -m bench.freshness`")
        return 1
    to.mkdir(parents=True, exist_ok=True)
    command = [str(peers_python()), "-m", "bench.plots", str(RAW), str(to)]
    drawn = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    (to / PAGE).write_text(page(results, set(drawn.stdout.split())))
    print(to / PAGE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
