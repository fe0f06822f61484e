"""Draw the projects of a seed: the same ones in every process, in the same order."""

from collections import Counter
from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from typing_extensions import override

from narthex._analysis.schemas import all_steps
from narthex_reference.generate.project import Project
from narthex_reference.generate.projects import projects

A_SEED = 100
"""The number of projects per seed."""


class SeedsAlone(HypothesisProvider):
    """Draws as Hypothesis does, but without the constants of the loaded modules.

    With them, a seed would give different projects under a test runner than from a command, and in
    a run of one file than in a run of all.
    """

    @override
    def _maybe_draw_constant(self, *_: object, **__: object) -> None:
        return None


SEEDS_ALONE = "narthex-seeds-alone"
"""Its name as `backend` in Hypothesis' settings."""

AVAILABLE_PROVIDERS[SEEDS_ALONE] = f"{SeedsAlone.__module__}.{SeedsAlone.__qualname__}"


def each_of_seed(
    seed: int,
    examine: Callable[[Project], None],
    *,
    count: int = A_SEED,
    shrinks: bool = False,
    row_pipelines_of: float = 0.0,
) -> None:
    """Examine the projects of a seed, until `examine` raises.

    Args:
        seed: The seed of the projects.
        examine: Called with each; if `shrinks`, after a failure with smaller ones too.
        count: The number of projects.
        shrinks: Whether to shrink a failing project to the smallest that still fails.
        row_pipelines_of: See `projects`.
    """

    @hypothesis.seed(seed)
    @settings(
        backend=SEEDS_ALONE,
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    @given(projects(row_pipelines_of=row_pipelines_of))
    def each(project: Project) -> None:
        examine(project)

    each()


def kinds(project: Project) -> Counter[str]:
    """Count steps, aggregates and enforced expectations of a project."""
    counts: Counter[str] = Counter()
    for dataset in project.definitions.datasets:
        for pipeline in dataset.pipelines:
            for step in all_steps(pipeline.terminal):
                counts[type(step).__name__] += 1
                for spec in getattr(step, "specs", ()):
                    counts[f"{type(spec).__name__} {type(spec.window).__name__}"] += 1
        counts.update(f"enforced {one.kind}" for one in dataset.enforced)
    return counts
