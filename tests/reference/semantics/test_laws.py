"""Laws of the reference, on generated projects."""

from hypothesis import HealthCheck, given, settings

from narthex._analysis.graph import check, reads
from narthex._analysis.schemas.pipelines import all_steps
from narthex._ir.entities import Dataset
from narthex._ir.facts import Fact
from narthex._ir.operators import Aggregate
from narthex.errors import DefinitionError
from narthex_reference.cell_equality import same_cells
from narthex_reference.comparing import differs
from narthex_reference.conformance import feed
from narthex_reference.engines import reference
from narthex_reference.generate import Project, instants_of, projects
from narthex_reference.generate.project import is_never_the_same
from narthex_reference.semantics.evaluator import Reference

some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def _fed(project: Project) -> Reference:
    engine = reference(project.definitions)
    feed(engine, project.in_order)
    return engine


def _identities(facts: tuple[Fact, ...]) -> list[tuple[bytes, int]]:
    return [(fact.row_id, fact.event_time) for fact in facts]


@some
@given(projects())
def test_generated_projects_are_valid_commits(project: Project) -> None:
    wrong: tuple[DefinitionError, ...] = check(project.definitions)

    assert wrong == ()


@some
@given(projects())
def test_order_repetition_and_cuts_change_nothing(project: Project) -> None:
    assert differs(project, reference, reference) is None


@some
@given(projects())
def test_a_replay_gives_the_same_rows_with_the_same_identities(project: Project) -> None:
    once, again = _fed(project), _fed(project)
    feed(again, project.arrival)

    for dataset in project.definitions.datasets:
        facts = again.facts(dataset.name)
        assert once.facts(dataset.name) == facts
        assert len(set(_identities(facts))) == len(facts)


@some
@given(projects())
def test_a_lookup_finds_the_newest_row_at_or_before_its_instant(project: Project) -> None:
    engine = _fed(project)
    asked = instants_of(project)[::5]

    for dataset in project.keyed:
        if is_never_the_same(dataset):
            continue
        facts = engine.facts(dataset.name)
        for key in [fact.key for fact in facts][:3]:
            for as_of, answer in zip(
                asked, engine.lookup(dataset.name, [key] * len(asked), asked), strict=True
            ):
                known = [fact for fact in facts if fact.key == key and fact.event_time <= as_of]
                if not known or not known[-1].alive:
                    assert answer is None
                    continue
                assert answer is not None
                assert same_cells(answer.values, known[-1].values)


@some
@given(projects())
def test_an_explanation_is_of_facts_that_were_sent(project: Project) -> None:
    engine = _fed(project)
    sent = {(name, fact.row_id) for name, fact in project.sent}

    for dataset in project.keyed:
        for fact in engine.facts(dataset.name)[:5]:
            made = engine.explain(dataset.name, fact.key, fact.event_time)
            assert {(one.dataset, one.row_id) for one in made} <= sent
            if fact.alive and not _is_aggregated(dataset, project):
                assert made


def _is_aggregated(dataset: Dataset, project: Project) -> bool:
    """Whether a row may belong to a window that contains no fact any more."""
    datasets = {one.name: one for one in project.definitions.datasets}
    steps = [step for one in dataset.pipelines for step in all_steps(one.terminal)]
    return any(isinstance(step, Aggregate) for step in steps) or any(
        _is_aggregated(datasets[name], project) for name in reads(dataset)
    )
