"""Laws of the reference, on generated projects."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings

from narthex._analysis.graph import check, disorders, reads, typed_datasets
from narthex._analysis.schemas.pipelines import all_steps
from narthex._ir.entities import Dataset
from narthex._ir.facts import Fact
from narthex._ir.operators import Aggregate
from narthex._ir.window_spans import oldest_visible
from narthex.errors import DefinitionError
from narthex_reference.cell_equality import is_never_the_same, same_cells
from narthex_reference.comparing import differs
from narthex_reference.conformance import feed
from narthex_reference.engines import reference
from narthex_reference.generate import Project, instants_of, projects
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
def test_a_lookup_finds_the_newest_row_at_or_before_its_instant_in_the_history(
    project: Project,
) -> None:
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
                oldest = _oldest_visible(engine, project, dataset, as_of)
                rows = _rows_behind(engine, dataset, known, as_of)
                if not known or not known[-1].alive or all(at < oldest for at in rows):
                    assert answer is None
                elif all(at >= oldest for at in rows):
                    assert answer is not None
                    assert same_cells(answer.values, known[-1].values)
                else:
                    # Only some of its rows are too old; cases written by hand check such values.
                    assert _ends_in_plain_aggregate(dataset)


def _oldest_visible(engine: Reference, project: Project, dataset: Dataset, as_of: int) -> int:
    typed = typed_datasets(project.definitions)
    disorder = disorders(one.dataset for one in typed)[dataset.name]
    newest = engine.newest(dataset.name)
    watermark = None if newest is None else newest - disorder
    return oldest_visible(dataset.history_us, as_of, watermark)


def _rows_behind(
    engine: Reference, dataset: Dataset, known: Sequence[Fact], as_of: int
) -> Sequence[int]:
    """Return the instants of the rows on which a key's answer depends, by its known facts.

    They are those of the group, or that of the newest fact.
    """
    if not known or not _ends_in_plain_aggregate(dataset):
        return [fact.event_time for fact in known[-1:]]
    names = [column.name for column in dataset.schema.keys]
    return [
        one.instant
        for one in engine.contributions(dataset.name)
        if one.instant <= as_of
        and same_cells([one.row.cells[name] for name in names], known[-1].key)
    ]


def _ends_in_plain_aggregate(dataset: Dataset) -> bool:
    """Whether lookups of a dataset aggregate rows over windows that end at their instant."""
    terminal = dataset.pipelines[-1].terminal if dataset.pipelines else None
    return isinstance(terminal, Aggregate) and terminal.window is None


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
