"""Rounds of projects judged, and what fails made smaller: many smaller ones at once, by rounds."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import attrs

from narthex._analysis.graph import check as check_graph
from narthex._analysis.graph import reads
from narthex._ir.entities import Definitions
from narthex.errors import OwnerMissing
from narthex.settings import Settings
from narthex_reference.conformance.arrivals import cut
from narthex_reference.generate.project import Project
from tests.differential.connecting import ConnectedProject, spoiled_of
from tests.differential.judging import Outcome, ReferenceAnswers, wrong_of
from tests.differential.platform import Session
from tests.differential.round import BACKFILL, LIVE, WAYS, Clock, Round

SMALLER_AT_ONCE = 24
SMALLER_ROUNDS = 6

ProjectWays = tuple[Project, tuple[str, ...]]
"""A project and the ways in which it is run."""


ONE_IN = 3
"""So few projects run half and half, beside live and as backfill."""


def ways_of(place: int) -> tuple[str, ...]:
    """Return the ways in which the project at a place is run."""
    return WAYS if place % ONE_IN == 0 else (LIVE, BACKFILL)


ExtraCheck = Callable[[int, Outcome], str | None]


def nothing_more(_place: int, _outcome: Outcome) -> None:
    """Find nothing wrong."""


@attrs.frozen(kw_only=True)
class Difference:
    """A project that one way of running it executes wrongly."""

    project: Project
    way: str
    wrong: str
    at: int


@attrs.define(kw_only=True)
class Searcher:
    """Runs rounds on one broker and one Spark session."""

    session: Session
    settings: Settings
    seed: int
    clock: Clock = attrs.field(factory=Clock)
    counts: Counter[str] = attrs.field(factory=Counter)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)

    def judged(
        self, asked: Sequence[ProjectWays], also: ExtraCheck = nothing_more
    ) -> list[Difference]:
        """Run projects, all at once; return those that differ.

        Args:
            asked: The projects to run.
            also: An additional check: receives the index of a project and the outcome of one way,
                and returns a problem or None.
        """
        number = next(self._numbers)
        work = Round(
            asked,
            name=f"r{number}",
            session=self.session,
            settings=self.settings,
            seed=self.seed * 100_003 + number,
            clock=self.clock,
        )
        found: list[Difference] = []
        try:
            work.work_off()
            with self.clock.doing("judge"):
                targets = work.target_rows()
                for at, (project, _) in enumerate(asked):
                    runs = [run for run in work.runs if run.number == at]
                    judge = ReferenceAnswers.of(runs[0].project)
                    for run in runs:
                        self.counts[run.way] += 1
                        wrong = wrong_of(run, work.records, judge, targets)
                        if wrong is None:
                            wrong = also(at, Outcome(run=run, records=work.records))
                        if wrong is not None:
                            found.append(
                                Difference(project=project, way=run.way, wrong=wrong, at=at)
                            )
        finally:
            with self.clock.doing("close"):
                work.close()
        self.counts += work.counts
        return found

    def made_smaller(self, difference: Difference) -> Difference:
        """Return a smaller project that differs, too, as far as a few rounds find one."""
        best = difference
        for _ in range(SMALLER_ROUNDS):
            tried = list(itertools.islice(smaller(best.project), SMALLER_AT_ONCE))
            failed = self.judged([(project, (best.way,)) for project in tried])
            if not failed:
                break
            best = min(failed, key=lambda one: _size(one.project))
        return best


def _size(project: Project) -> tuple[int, int, int]:
    rows = len(project.sent) + len(spoiled_of(project))
    return (len(project.definitions.datasets), rows, len(project.arrival))


def smaller(project: Project) -> Iterator[Project]:
    """Yield projects with less in them, those with the least first."""
    yield from _with_fewer_datasets(project)
    yield from _with_fewer_spoiled_rows(project)
    count = len(project.sent)
    cuts = 1
    while cuts < count:
        cuts = min(2 * cuts, count)
        edges = [count * at // cuts for at in range(cuts + 1)]
        for begin, end in itertools.pairwise(edges):
            yield project.with_facts([*range(begin), *range(end, count)])
    if len(project.arrival) > 1:
        yield attrs.evolve(project, arrival=cut(project.sent, [count]))


def _with_fewer_datasets(project: Project) -> Iterator[Project]:
    datasets = project.definitions.datasets
    for dataset in datasets:
        if any(dataset.name in reads(one) for one in datasets):
            continue
        kept = tuple(one for one in datasets if one is not dataset)
        names = {one.name for one in kept if not one.pipelines}
        definitions = Definitions(datasets=kept, featuresets=())
        if any(one.pipelines for one in kept) and _is_correct(definitions):
            at = [place for place, (name, _) in enumerate(project.sent) if name in names]
            yield attrs.evolve(project.with_facts(at), definitions=definitions)


def _with_fewer_spoiled_rows(project: Project) -> Iterator[Project]:
    if isinstance(project, ConnectedProject) and project.spoiled:
        yield attrs.evolve(project, spoiled=())
        for left in itertools.combinations(project.spoiled, len(project.spoiled) - 1):
            if left:
                yield attrs.evolve(project, spoiled=left)


def _is_correct(definitions: Definitions) -> bool:
    return all(isinstance(error, OwnerMissing) for error in check_graph(definitions))
