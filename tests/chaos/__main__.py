"""`python -m tests.chaos`: card velocity while processes die; the end must be the reference's.

python -m tests.chaos [--spark local|cluster] [--seed N] [--minutes M] [--faults N] [--rate R]
                      [--home DIR] [--json]

With `--spark cluster` drivers use a standalone cluster of Spark, whose master, workers and
executors are hit, too.

Exits with 0 when nothing was lost, doubled or wrong, and executors of the cluster ran all tasks;
with 1 otherwise.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.chaos.running import RunOptions, RunResult, run
from tests.spark_cluster import CLUSTER, LOCAL


def main() -> int:
    """Run once and print the outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to inject faults [5]")
    parser.add_argument(
        "--faults", type=int, default=60, help="the approximate number of faults [60]"
    )
    parser.add_argument("--rate", type=float, default=40.0, help="payments per second [40]")
    parser.add_argument("--spark", default=LOCAL, choices=[LOCAL, CLUSTER])
    parser.add_argument("--supervisors", type=int, default=2, help="the number of supervisors [2]")
    parser.add_argument(
        "--within",
        type=float,
        default=300.0,
        help="the longest start and the longest recovery, in seconds [300]",
    )
    parser.add_argument("--home", type=Path, help="an empty directory to keep [a temporary one]")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON on stdout")
    given = parser.parse_args()
    wanted = RunOptions(
        seed=given.seed,
        minutes=given.minutes,
        faults=given.faults,
        rate=given.rate,
        supervisors=given.supervisors,
        spark=given.spark,
        within_s=given.within,
    )
    if given.home is not None:
        outcome = run(wanted, given.home, _tell)
    else:
        with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as home:
            outcome = run(wanted, Path(home), _tell)
    print(json.dumps(outcome.plain()) if given.json else _page(outcome))
    return 0 if outcome.is_exact else 1


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _page(outcome: RunResult) -> str:
    plain = outcome.plain()
    examples = plain.pop("examples")
    lines = [f"{name}: {value}" for name, value in plain.items()]
    return "\n".join([*lines, *(f"  {one}" for one in (examples or ()))])  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
