"""Projects of a seed, as the search of an engine draws them, and what is in them."""

import enum
import functools
from collections import Counter
from collections.abc import Iterator
from typing import Final

from numpy.random import default_rng

from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._ir import Definitions, PipelineJobSpec, Trigger
from narthex_reference.generate import A_SEED, Project, each_of_seed, kinds
from tests.differential.connecting import connected, read_by_a_job

ROW_PIPELINES: Final = 0.8
"""The share of the projects with a pipeline of row steps alone, where one fits."""


@functools.lru_cache(maxsize=16)
def drawn(seed: int, *, count: int = A_SEED) -> tuple[Project, ...]:
    """Return the projects of a seed: always the same ones, in the same order."""
    found: list[Project] = []
    each_of_seed(seed, found.append, count=count, row_pipelines_of=ROW_PIPELINES)
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
    on_spark = any(map(read_by_a_job, definitions.datasets)) or any(
        one.trigger is not Trigger.STATEFUL for one in _jobs(definitions)
    )
    return jobs in {Jobs.ANY, Jobs.ON_SPARK if on_spark else Jobs.BESIDE_SPARK}


def _jobs(definitions: Definitions) -> list[PipelineJobSpec]:
    assets = compile_blueprint(definitions).assets
    return [one.spec for one in assets if isinstance(one.spec, PipelineJobSpec)]


def from_seeds(first: int, *, jobs: Jobs) -> Iterator[tuple[int, int, Project]]:
    """Yield projects of one seed after the other, each with its seed and its place there.

    Some have sources that jobs read, and sinks. Those without facts are left out: there is nothing
    in which they could differ.
    """
    seed = first
    while True:
        for place, project in enumerate(drawn(seed)):
            made = connected(project, default_rng([seed, place]))
            if made.sent and passes(made.definitions, jobs):
                yield seed, place, made
        seed += 1


def kinds_with_jobs(project: Project) -> Counter[str]:
    """Count steps, aggregates and triggers of the pipelines of a project."""
    return kinds(project) + Counter(
        f"job {spec.trigger.value}" for spec in _jobs(project.definitions)
    )
