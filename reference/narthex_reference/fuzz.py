"""Search for projects on which an engine differs from the reference.

    python -m narthex_reference.fuzz --n 1000 --seed 0 --engine module:factory

Each seed gives a hundred projects, always the same ones; a failing project is shrunk and written
as a program. Progress goes to stderr, one line of JSON to stdout. It exits with 1 if the engines
differ.
"""

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from narthex._base import atomic_write
from narthex_reference.comparing import EngineFactory, differs
from narthex_reference.engines import REFERENCE, engine_named
from narthex_reference.generate import A_SEED, Project, each_of_seed, kinds, render_program


class EnginesDiffer(AssertionError):
    """Two engines differ on a project."""


@attrs.frozen
class Failure:
    """The smallest project found on which engines differ, and the difference."""

    project: Project
    wrong: str


@attrs.define
class Search:
    """The projects of a search and its failure.

    Attributes:
        steps: How often each kind of step and aggregate occurred in a project.
    """

    tried: int = 0
    steps: Counter[str] = attrs.field(factory=Counter)
    failure: Failure | None = None


def search(seed: int, count: int, *, judge: EngineFactory, engine: EngineFactory) -> Search:
    """Compare engines on the projects of a seed, until one fails, and shrink that one."""
    done = Search()

    def examine(project: Project) -> None:
        if done.failure is None:
            done.tried += 1
            done.steps.update(kinds(project))
        wrong = _differ(project, judge, engine)
        if wrong is not None:
            done.failure = Failure(project, wrong)
            raise EnginesDiffer(wrong)

    with contextlib.suppress(EnginesDiffer):
        each_of_seed(seed, examine, count=count, shrinks=True)
    if done.failure is not None:
        done.failure = _with_fewer_facts(done.failure, judge, engine)
    return done


def _with_fewer_facts(failure: Failure, judge: EngineFactory, engine: EngineFactory) -> Failure:
    """Return a failure from which no fact and no repeated arrival of one can be left out.

    Hypothesis seldom finds it: with one fact less, all facts arrive in another order.
    """
    for smaller in _smaller(failure.project):
        wrong = _differ(smaller, judge, engine)
        if wrong is not None:
            return _with_fewer_facts(Failure(smaller, wrong), judge, engine)
    return failure


def _smaller(project: Project) -> Iterator[Project]:
    """Yield the project without one of its facts, and without one repeated arrival of a fact."""
    places = range(len(project.sent))
    for left_out in places:
        yield project.with_facts([at for at in places if at != left_out])
    arrived = Counter((name, fact) for name, facts in project.arrival for fact in facts)
    for number, (name, facts) in enumerate(project.arrival):
        before, after = project.arrival[:number], project.arrival[number + 1 :]
        for at, fact in enumerate(facts):
            if arrived[name, fact] > 1:
                others = (*facts[:at], *facts[at + 1 :])
                batches = ((name, others),) if others else ()
                yield attrs.evolve(project, arrival=(*before, *batches, *after))


def _differ(project: Project, judge: EngineFactory, engine: EngineFactory) -> str | None:
    try:
        return differs(project, judge, engine)
    except Exception as error:  # noqa: BLE001 (an engine that fails is one that differs)
        return f"{type(error).__name__}: {error}"


def compared(project: Project, *, judge: str, engine: str) -> int:
    """Compare two engines on one project; print the difference, and return the exit code."""
    wrong = _differ(project, engine_named(judge), engine_named(engine))
    sys.stdout.write(f"{wrong or 'they agree'}\n")
    return 0 if wrong is None else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    asked = _parser().parse_args(arguments)
    judge, engine = engine_named(asked.judge), engine_named(asked.engine)
    begun = time.monotonic()
    seeds = range(asked.seed, asked.seed + -(-asked.n // A_SEED))
    tried, seed = 0, asked.seed
    steps: Counter[str] = Counter()
    program: str | None = None
    for seed in seeds:
        count = min(A_SEED, asked.n - (seed - asked.seed) * A_SEED)
        done = search(seed, count, judge=judge, engine=engine)
        tried += done.tried
        steps += done.steps
        took = time.monotonic() - begun
        sys.stderr.write(f"seed {seed}: {tried} of {asked.n} projects compared, {took:.0f} s\n")
        if done.failure is not None:
            sys.stderr.write(f"seed {seed}: {done.failure.wrong}\n")
            program = _written(done.failure, seed, asked)
            sys.stderr.write(f"written to {program}\n")
            break
    told = {
        "engine": asked.engine,
        "judge": asked.judge,
        "projects": tried,
        "seeds": [asked.seed, seed],
        "differ": program,
        "seconds": round(time.monotonic() - begun, 1),
        "steps": dict(steps.most_common()),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 0 if program is None else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m narthex_reference.fuzz")
    parser.add_argument("--n", type=int, default=1000, help="the number of projects")
    parser.add_argument(
        "--seed", type=int, default=0, help="the first seed; to continue, the last one printed"
    )
    parser.add_argument("--engine", default=REFERENCE, help="`reference`, or `module:factory`")
    parser.add_argument("--judge", default=REFERENCE, help="the engine to compare with, likewise")
    parser.add_argument(
        "--programs", type=Path, default=Path(), help="the directory for programs of failures"
    )
    return parser


def _written(failure: Failure, seed: int, asked: argparse.Namespace) -> str:
    file: Path = asked.programs / f"differs_{seed}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = render_program(
        failure.project,
        judge=asked.judge,
        engine=asked.engine,
        wrong=failure.wrong,
        file=file.name,
    )
    atomic_write(file, text, mode=0o644)
    return str(file)


if __name__ == "__main__":
    sys.exit(main())
