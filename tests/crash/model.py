"""`python -m tests.crash.model`: run the state machine of the ledger, from any seed."""

import json
import sys
from typing import Annotated

import attrs
import structlog
import typer

from tests.crash.__main__ import QUIET
from tests.crash.machine import Counts, run
from tests.crash.world import World
from tests.memory import server_in_memory

EXAMPLES, STEPS = 10, 100


def main(
    steps: Annotated[int, typer.Option(help="The least number of steps.")] = 2000,
    seed: Annotated[
        int, typer.Option(help="The first seed; to continue, the last one of an earlier run.")
    ] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Run the model for a number of steps; a seed is about ten runs of a hundred steps.

    A broken invariant ends it, and it prints the steps that lead there and the seed to repeat them.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    counts = Counts()
    number = seed
    with server_in_memory() as (server, home):
        world = World.open(server.create_database("model"), home)
        try:
            while counts.steps < steps:
                sys.stderr.write(f"seed {number}: {counts.steps} of {steps} steps\n")
                sys.stderr.flush()
                run(world, counts, seeds=[number], examples=EXAMPLES, steps=STEPS)
                number += 1
        finally:
            world.close()
    found = {"seeds": [seed, number], **attrs.asdict(counts)}
    sys.stdout.write(json.dumps(found) + "\n" if as_json else f"{found}: no promise broken\n")


if __name__ == "__main__":
    typer.run(main)
