"""Run the platform on three hosts of this machine, and do things to them: `make hosts`.

    python -m tests.hosts [--scenarios move-slots slow-link cut-link lose-host] [--seed N] [--json]

Exits with 1 if a row is lost, doubled or wrong, or if an answer is older than what a reader has
seen; with 2 if the machine cannot have hosts.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.hosts.machines import in_private_network, why_unavailable
from tests.hosts.running import run_hosts
from tests.hosts.scenarios import SCENARIOS

INSIDE = "--inside"


def tell(line: str) -> None:
    """Print a line of progress on stderr, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main() -> int:
    """Enter a private network, run, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=40.0, help="rows a second")
    parser.add_argument("--within", type=float, default=300.0, help="seconds to come up, to drain")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:
        why = why_unavailable()
        if why:
            tell(f"this machine cannot have hosts: {why}")
            return 2
        return in_private_network(("-m", "tests.hosts", *sys.argv[1:], INSIDE))
    with tempfile.TemporaryDirectory(prefix="narthex-hosts-") as home:
        result = run_hosts(
            asked.scenarios,
            Path(home),
            tell,
            seed=asked.seed,
            rate=asked.rate,
            within_s=asked.within,
        )
    print(json.dumps(result.plain()))
    return 0 if result.is_exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
