"""Running one project that failed: what the programs call that `make fuzz-spark` writes."""

import argparse
import sys
from collections.abc import Sequence

from narthex_reference.generate import Project
from tests.differential.platform import platform
from tests.differential.searching import Searcher

COPIES = 40
"""The same project so many times in a round: chance cuts each of them otherwise."""

ROUNDS = 5


def compared(
    project: Project, *, judge: str, engine: str, arguments: Sequence[str] | None = None
) -> int:
    """Run a project in one way, many times, until it differs; return an exit code.

    Args:
        project: The project.
        judge: The name of the engine that is right.
        engine: The way.
        arguments: The options of the command; by default those of this process.
    """
    parser = argparse.ArgumentParser(
        description=f"Run the project {COPIES} times a round, until a run differs."
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="the greatest number of rounds")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all random choices")
    options = parser.parse_args(arguments)
    with platform() as (session, settings):
        searcher = Searcher(session=session, settings=settings, seed=options.seed)
        for number in range(1, options.rounds + 1):
            failed = searcher.judged([(project, (engine,))] * COPIES)
            if failed:
                sys.stdout.write(
                    f"round {number}: {len(failed)} of {COPIES} differ from `{judge}`\n"
                    f"{failed[0].wrong}\n"
                )
                return 1
    sys.stdout.write(f"{options.rounds * COPIES} runs agree\n")
    return 0
