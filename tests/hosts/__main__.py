"""Run the platform on three hosts of this machine, and do things to them: `make hosts`.

    python -m tests.hosts [--scenarios move-slots slow-link cut-link lose-host]
                          [--spark local|cluster] [--seed N] [--json]

With `--spark cluster` a master is on the host of the stores, and drivers have executors on both
other hosts.

Prints a report, or one line of JSON. Exits with 1 if a row is lost, doubled or wrong, if an
answer is older than what a reader has seen, or if the platform does not recover; with 2 if the
machine cannot have hosts.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from narthex_stack.errors import NotStartedError
from tests.chaos.plant import NotReachedError
from tests.hosts.machines import in_private_network, why_unavailable
from tests.hosts.report import report
from tests.hosts.running import HostsOptions, run_hosts
from tests.hosts.scenarios import SCENARIOS
from tests.spark_cluster import CLUSTER, LOCAL

INSIDE = "--inside"


def tell(line: str) -> None:
    """Print a line of progress on stderr, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main() -> int:
    """Enter a private network, run, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    parser.add_argument("--spark", default=LOCAL, choices=[LOCAL, CLUSTER])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=40.0, help="rows a second")
    parser.add_argument("--within", type=float, default=300.0, help="seconds to come up, to drain")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.inside:
        why = why_unavailable()
        if why:
            tell(f"this machine cannot have hosts: {why}")
            return 2
        return in_private_network(("-m", "tests.hosts", *sys.argv[1:], INSIDE))
    with tempfile.TemporaryDirectory(prefix="narthex-hosts-") as home:
        wanted = HostsOptions(
            scenarios=asked.scenarios,
            spark=asked.spark,
            seed=asked.seed,
            rate=asked.rate,
            within_s=asked.within,
        )
        try:
            result = run_hosts(wanted, Path(home), tell)
        except (NotReachedError, NotStartedError) as error:
            tell(f"the run ended early: {error}")
            return 1
    print(json.dumps(result.plain()) if asked.json else report(result))
    return 0 if result.is_exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
