"""`python -m tests.chaos`: card velocity while processes die; the end must be the reference's.

python -m tests.chaos [--seed N] [--minutes M] [--faults N] [--rate R] [--home DIR] [--json]

Exits with 0 when nothing was lost, doubled or wrong, with 1 otherwise.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.chaos.running import Outcome, Wanted, run


def main() -> int:
    """Run once and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=5.0, help="for how long faults hit [5]")
    parser.add_argument("--faults", type=int, default=60, help="about how many [60]")
    parser.add_argument("--rate", type=float, default=40.0, help="payments a second [40]")
    parser.add_argument("--supervisors", type=int, default=2, help="how many share the jobs [2]")
    parser.add_argument(
        "--within", type=float, default=300.0, help="seconds to come up, and to settle [300]"
    )
    parser.add_argument("--home", type=Path, help="an empty directory that stays [one that goes]")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    given = parser.parse_args()
    wanted = Wanted(
        seed=given.seed,
        minutes=given.minutes,
        faults=given.faults,
        rate=given.rate,
        supervisors=given.supervisors,
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


def _page(outcome: Outcome) -> str:
    plain = outcome.plain()
    examples = plain.pop("examples")
    lines = [f"{name}: {value}" for name, value in plain.items()]
    return "\n".join([*lines, *(f"  {one}" for one in (examples or ()))])  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
