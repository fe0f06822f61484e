"""`python -m tests.crash`: run the crash matrix on its own PostgreSQL and print a table."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO, Annotated, Any

import structlog
import typer

from tests.crash.matrix import Matrix, RunResult, all_pairs, singles, some_pairs
from tests.crash.reports import Report, lines, united
from tests.crash.scenarios import SCENARIOS
from tests.crash.world import World
from tests.memory import server_in_memory

QUIET = 50
TELL_EACH = 50
ENOUGH = 20
"""More failures than these teach nothing."""


def main(  # noqa: PLR0913 - one argument an option
    n: Annotated[
        int, typer.Option("--n", help="The number of random pairs of faults; -1: all pairs.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the pairs.")] = 0,
    scenario: Annotated[
        str, typer.Option(help="Run only scenarios whose names start with this.")
    ] = "",
    part: Annotated[
        str, typer.Option(help="Run only this part of the single faults and pairs, such as 1/8.")
    ] = "1/1",
    processes: Annotated[
        int, typer.Option(help="Run so many processes beside each other, each with a PostgreSQL.")
    ] = 1,
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
    which, parts = (int(number) for number in part.split("/"))
    if processes > 1:
        asked = ["--n", str(n), "--seed", str(seed), "--scenario", scenario]
        asked.append("--alone" if alone else "--no-alone")
        shares = [f"{which + parts * number}/{parts * processes}" for number in range(processes)]
        report = united(_run_several([[*asked, "--part", share] for share in shares]))
    else:
        report = _run(n, seed, scenario, slice(which - 1, None, parts), alone=alone)
    if as_json:
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(lines(report)) + "\n")
    raise typer.Exit(1 if report["failed"] or report["missed"] or not report["runs"] else 0)


def _run(n: int, seed: int, scenario: str, part: slice, *, alone: bool) -> dict[str, Any]:
    """Run a part of the matrix in this process."""
    began = time.monotonic()
    chosen = [one for one in SCENARIOS if one.name.startswith(scenario)]
    with server_in_memory() as (server, home):
        world = World.open(server.create_database("crash"), home)
        try:
            ones = list(singles(world, chosen))[part] if alone else []
            seeds = [f"{seed}/{number}" for number in range(n)][part]
            two: Iterable[Callable[[], RunResult]] = some_pairs(world, chosen[0], seeds=seeds)
            if n < 0:
                two = itertools.islice(all_pairs(world, chosen[0]), part.start, None, part.step)
            of = f"{len(ones)} and {len(seeds) if n >= 0 else 'all'} pairs"
            matrix = carry_out(itertools.chain(ones, two), of=of)
        finally:
            world.close()
    return {**matrix.plain(), "seconds": round(time.monotonic() - began, 1)}


def carry_out(runs: Iterable[Callable[[], RunResult]], *, of: str) -> Matrix:
    """Run all of them, telling how far it is."""
    matrix = Matrix()
    began = time.monotonic()
    for number, tell in enumerate(runs, start=1):
        matrix.add(tell())
        if number % TELL_EACH == 0 or matrix.failed:
            failed, missed = len(matrix.failed), len(matrix.missed)
            seconds = time.monotonic() - began
            sys.stderr.write(
                f"{number} of {of} in {seconds:.0f} s: {failed} broke a promise, {missed} missed\n"
            )
            sys.stderr.flush()
        if len(matrix.failed) > ENOUGH:
            break
    return matrix


def _run_several(arguments: Iterable[list[str]]) -> list[Report]:
    """Run a process of this program for each list of arguments; return their reports.

    Raises:
        ChildProcessError: One of them ended without a report.
    """
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash", *given, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for given in arguments
    ]
    readers = [
        threading.Thread(target=_pass_on, args=(run.stderr, f"[{number}] "))
        for number, run in enumerate(runs, start=1)
    ]
    for reader in readers:
        reader.start()
    outputs = [run.stdout.read() if run.stdout else "" for run in runs]
    for run in runs:
        run.wait()
    for reader in readers:
        reader.join()
    lost = [number for number, output in enumerate(outputs, start=1) if not output]
    if lost:
        raise ChildProcessError(f"processes {lost} ended without a report")
    return [json.loads(output) for output in outputs]


def _pass_on(text: IO[str] | None, prefix: str) -> None:
    for line in text or ():
        sys.stderr.write(prefix + line)


if __name__ == "__main__":
    typer.run(main)
