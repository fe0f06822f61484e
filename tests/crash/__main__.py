"""`python -m tests.crash`: run the crash matrix on its own PostgreSQL and print a table."""

import itertools
import json
import sys
from collections.abc import Callable, Iterable
from random import Random  # noqa: TID251 (seeded)
from typing import Annotated

import structlog
import typer

from tests.crash.matrix import Matrix, RunResult, pairs, singles
from tests.crash.memory import server_in_memory
from tests.crash.scenarios import SCENARIOS
from tests.crash.world import World

QUIET = 50
TELL_EACH = 50
ENOUGH = 20
"""More failures than these teach nothing."""


def main(
    n: Annotated[
        int, typer.Option("--n", help="The number of random pairs of faults; -1: all pairs.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the pairs.")] = 0,
    scenario: Annotated[
        str, typer.Option(help="Run only scenarios whose names start with this.")
    ] = "",
    part: Annotated[
        str,
        typer.Option(help="Run only this part of the single faults and of all pairs, such as 1/8."),
    ] = "1/1",
    *,
    alone: Annotated[
        bool, typer.Option("--alone/--no-alone", help="Also run single faults.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Fail every call and every transaction of every scenario, one by one, then in pairs.

    Single faults are exhaustive. Pairs (a second fault during recovery from the first) are drawn
    at random from those of the first scenario, or are all of them.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(QUIET))
    chosen = [one for one in SCENARIOS if one.name.startswith(scenario)]
    which, parts = (int(number) for number in part.split("/"))
    with server_in_memory() as (server, home):
        world = World.open(server.create_database("crash"), home)
        try:
            rng = Random(seed)  # noqa: S311 (no secret)
            ones = list(singles(world, chosen))[which - 1 :: parts] if alone else []
            two = pairs(world, chosen[0], most=n if n >= 0 else None, rng=rng) if n else iter(())
            if n < 0:
                two = itertools.islice(two, which - 1, None, parts)
            of = f"{len(ones)} and {n if n >= 0 else 'all'} pairs"
            matrix = carry_out(itertools.chain(ones, two), of=of)
        finally:
            world.close()
    if as_json:
        sys.stdout.write(json.dumps(matrix.plain(), indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(matrix.lines()) + "\n")
    raise typer.Exit(1 if matrix.failed or matrix.missed or not matrix.runs else 0)


def carry_out(runs: Iterable[Callable[[], RunResult]], *, of: str) -> Matrix:
    """Run all of them, telling how far it is."""
    matrix = Matrix()
    for number, tell in enumerate(runs, start=1):
        matrix.add(tell())
        if number % TELL_EACH == 0 or matrix.failed:
            failed, missed = len(matrix.failed), len(matrix.missed)
            sys.stderr.write(f"{number} of {of}: {failed} broke a promise, {missed} missed\n")
            sys.stderr.flush()
        if len(matrix.failed) > ENOUGH:
            break
    return matrix


if __name__ == "__main__":
    typer.run(main)
