"""Projects of a seed, as the search of an engine draws them, and what is in them."""

import enum
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from numpy.random import default_rng

from narthex._analysis.schemas import all_steps
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._connectors import kind_of
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
from tests.differential.connecting import connected, read_by_a_job

SOURCE: Final = "source "
PIPELINE: Final = "pipeline "
SINK: Final = "sink "
"""The parts that jobs belong to."""


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


def job_kinds(project: Project) -> Iterator[frozenset[str]]:
    """Yield the kinds of each job of a project, each after the part that it belongs to.

    Of a pipeline they are its trigger, its operators, and author code; of a source or a sink, the
    connector, and for a source `cdc`.
    """
    for dataset in project.definitions.datasets:
        if read_by_a_job(dataset):
            for source in dataset.sources:
                kind = kind_of(source.connector).name
                yield frozenset({f"{SOURCE}{kind}", f"{SOURCE}{source.cdc.value}"})
        for sink in dataset.sinks:
            yield frozenset({f"{SINK}{kind_of(sink.target).name}"})
    for spec in _jobs(project.definitions):
        names = {type(step).__name__ for step in all_steps(spec.operators)} - {DatasetRef.__name__}
        if spec.log.shape is LogShape.CONTRIBUTIONS:
            names.add(Aggregate.__name__)
        if any(map(_runs_code, all_steps(spec.operators))):
            names.add("author code")
        yield frozenset(f"{PIPELINE}{one}" for one in {f"trigger {spec.trigger.value}", *names})


def _runs_code(step: Operator) -> bool:
    by_code = isinstance(step, Filter) and isinstance(step.predicate, UserCode)
    return by_code or isinstance(step, AssignCode | Transform)


def shares(jobs: Iterable[frozenset[str]]) -> dict[str, float]:
    """Return the share of each kind, the rarest first.

    Sources, pipelines and sinks have their shares of all jobs, their kinds those of their part.
    """
    counts: Counter[str] = Counter()
    for kinds_of_job in jobs:
        counts.update(kinds_of_job)
        counts.update({kind.split()[0] for kind in kinds_of_job})
    parts = [kind for kind in counts if " " not in kind]
    total = sum(counts[part] for part in parts)
    found = {k: n / (total if k in parts else counts[k.split()[0]]) for k, n in counts.items()}
    return dict(sorted(found.items(), key=lambda kind: kind[1]))


def kinds_with_jobs(project: Project) -> Counter[str]:
    """Count steps, aggregates and triggers of the pipelines of a project."""
    return kinds(project) + Counter(
        f"job {spec.trigger.value}" for spec in _jobs(project.definitions)
    )
