"""Projects of a seed, as the search of an engine draws them, and what is in them."""

import enum
from collections import Counter
from collections.abc import Iterator

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings

from narthex.assets import PipelineJobSpec, Trigger
from narthex.blueprint import compile_blueprint
from narthex.capability import not_carried_out
from narthex.entities import Definitions
from narthex.schemas import all_steps
from narthex_reference.generate import Project, projects

A_SEED = 100
"""So many projects a seed gives, those that are left out included."""


def drawn(seed: int, *, count: int = A_SEED) -> list[Project]:
    """Give the projects of a seed: always the same ones, in the same order."""
    found: list[Project] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    @given(projects())
    def take(project: Project) -> None:
        found.append(project)

    take()
    return found


class Jobs(enum.Enum):
    """Which projects are run.

    Attributes:
        ANY: All.
        ON_SPARK: Those with a job that runs in Spark, live or as backfill.
        BESIDE_SPARK: The others: all their jobs have a state of their own.
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
    """Give projects of one seed after the other, each with its seed and its place there.

    Those without facts are left out: there is nothing in which they could differ.
    """
    seed = first
    while True:
        for place, project in enumerate(drawn(seed)):
            if project.sent and passes(project.definitions, jobs):
                yield seed, place, project
        seed += 1


def kinds(project: Project) -> Counter[str]:
    """Count steps, aggregates and triggers of the pipelines of a project."""
    found: Counter[str] = Counter()
    for dataset in project.definitions.datasets:
        for pipeline in dataset.pipelines:
            for step in all_steps(pipeline.terminal):
                found[type(step).__name__] += 1
                for spec in getattr(step, "specs", ()):
                    found[f"{type(spec).__name__} {type(spec.window).__name__}"] += 1
    for spec in _jobs(project.definitions):
        found[f"job {spec.trigger.value}"] += 1
    return found
