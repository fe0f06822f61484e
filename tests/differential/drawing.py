"""Projects of a seed, as the search of an engine draws them, and what is in them."""

import enum
import functools
from collections import Counter
from collections.abc import Iterator, Mapping

from narthex._analysis.schemas import all_steps
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._ir import (
    Aggregate,
    AssignCode,
    DatasetRef,
    Definitions,
    Filter,
    LogShape,
    Operator,
    PipelineJobSpec,
    Transform,
    Trigger,
    UserCode,
)
from narthex_reference.generate import A_SEED, Project, each_of_seed, kinds


@functools.lru_cache(maxsize=16)
def drawn(seed: int, *, count: int = A_SEED) -> tuple[Project, ...]:
    """Return the projects of a seed: always the same ones, in the same order."""
    found: list[Project] = []
    each_of_seed(seed, found.append, count=count)
    return tuple(found)


class Jobs(enum.Enum):
    """Which projects are run.

    Attributes:
        ANY: All.
        ON_SPARK: Those with a job that has no state of its own.
        BESIDE_SPARK: The others: all their jobs run live in the stage runner.
    """

    ANY = "any"
    ON_SPARK = "on-spark"
    BESIDE_SPARK = "beside-spark"


def passes(definitions: Definitions, jobs: Jobs) -> bool:
    """Whether a commit would accept definitions, and they have such jobs."""
    if not_carried_out(definitions):
        return False
    on_spark = any(one.trigger is not Trigger.STATEFUL for one in _jobs(definitions))
    return jobs in {Jobs.ANY, Jobs.ON_SPARK if on_spark else Jobs.BESIDE_SPARK}


def _jobs(definitions: Definitions) -> list[PipelineJobSpec]:
    assets = compile_blueprint(definitions).assets
    return [one.spec for one in assets if isinstance(one.spec, PipelineJobSpec)]


def from_seeds(first: int, *, jobs: Jobs) -> Iterator[tuple[int, int, Project]]:
    """Yield projects of one seed after the other, each with its seed and its place there.

    Those without facts are left out: there is nothing in which they could differ.
    """
    seed = first
    while True:
        for place, project in enumerate(drawn(seed)):
            if project.sent and passes(project.definitions, jobs):
                yield seed, place, project
        seed += 1


def job_kinds(project: Project) -> Iterator[frozenset[str]]:
    """Yield the kinds of each job of a project: its trigger, its operators, and author code."""
    for spec in _jobs(project.definitions):
        names = {type(step).__name__ for step in all_steps(spec.operators)} - {DatasetRef.__name__}
        if spec.log.shape is LogShape.CONTRIBUTIONS:
            names.add(Aggregate.__name__)
        if any(map(_runs_code, all_steps(spec.operators))):
            names.add("author code")
        yield frozenset({f"trigger {spec.trigger.value}", *names})


def _runs_code(step: Operator) -> bool:
    by_code = isinstance(step, Filter) and isinstance(step.predicate, UserCode)
    return by_code or isinstance(step, AssignCode | Transform)


def shares(kinds_of_jobs: Mapping[str, int], jobs: int) -> dict[str, float]:
    """Return the share of the jobs that are of each kind, the rarest first."""
    ordered = sorted(kinds_of_jobs.items(), key=lambda kind: kind[1])
    return {kind: count / max(1, jobs) for kind, count in ordered}


def kinds_with_jobs(project: Project) -> Counter[str]:
    """Count steps, aggregates and triggers of the pipelines of a project."""
    return kinds(project) + Counter(
        f"job {spec.trigger.value}" for spec in _jobs(project.definitions)
    )
