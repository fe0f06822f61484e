"""Compare two engines: every row, and every key at every relevant instant."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from numpy.random import Generator, default_rng

from narthex._formats import cell_bytes
from narthex._ir import Cell, Dataset, Definitions, Fact
from narthex_reference.cell_equality import is_never_the_same, same_cells
from narthex_reference.conformance.checking import feed
from narthex_reference.engine import Answer, Engine, PartialQueryEngine, QueryEngine
from narthex_reference.generate.project import Project, instants_of

EngineFactory: TypeAlias = Callable[[Definitions], Engine]

MOST_INSTANTS = 24
"""The number of instants looked up per key, drawn from the relevant ones."""


def differs(
    project: Project, judge_factory: EngineFactory, engine_factory: EngineFactory
) -> str | None:
    """Return the first difference of two engines on a project; None where they agree.

    The judge receives the facts in order and at once. The other engine receives them as they
    arrive, and is also compared once on the way with a fresh judge of the same facts.
    """
    engine = engine_factory(project.definitions)
    half = len(project.arrival) // 2
    feed(engine, project.arrival[:half])
    if half:
        judge = judge_factory(project.definitions)
        feed(judge, project.arrival[:half])
        wrong = differs_standing(project, judge, engine, most=4)
        if wrong is not None:
            return f"after {half} batches: {wrong}"
    feed(engine, project.arrival[half:])
    judge = judge_factory(project.definitions)
    feed(judge, project.in_order)
    return differs_standing(project, judge, engine, most=MOST_INSTANTS)


def answers_always(_dataset: str) -> int | None:
    """Return the first instant as of which an engine answers lookups, if it answers all: None."""
    return None


def differs_standing(
    project: Project,
    judge: QueryEngine,
    engine: PartialQueryEngine,
    *,
    most: int,
    answered_from: Callable[[str], int | None] = answers_always,
) -> str | None:
    """Return the first difference of an engine's current state from a judge with the same facts.

    Args:
        project: The project whose definitions both execute.
        judge: The engine that is right.
        engine: The engine to judge.
        most: The greatest number of instants to look up per key.
        answered_from: Returns the first instant as of which the engine answers lookups of a
            dataset, because it has deleted rows that are too old; None if it answers all.
    """
    rng = default_rng(len(project.sent))
    for dataset in project.definitions.datasets:
        if not is_never_the_same(dataset):
            wrong = _rows_differ(dataset, judge, engine)
            if wrong is not None:
                return wrong
        if dataset.schema.keys:
            first, asked = answered_from(dataset.name), _drawn(project, rng, most)
            answered = [instant for instant in asked if first is None or first <= instant]
            wrong = _answers_differ(dataset, judge, engine, answered)
            if wrong is not None:
                return wrong
    return None


def _drawn(project: Project, rng: Generator, most: int) -> list[int]:
    instants = instants_of(project)
    count = min(most, len(instants))
    return [instants[int(at)] for at in sorted(rng.permutation(len(instants))[:count])]


def _rows_differ(dataset: Dataset, judge: QueryEngine, engine: PartialQueryEngine) -> str | None:
    wanted, found = judge.facts(dataset.name), engine.facts(dataset.name)
    if found is None:
        return None
    if len(wanted) == len(found) and all(map(_same_fact, wanted, found)):
        return None
    return f"`{dataset.name}` has{_listed(found)}\n  but means{_listed(wanted)}"


def _same_fact(left: Fact, right: Fact) -> bool:
    """Whether two facts are the same row; versions are an engine's own."""
    return (
        left.row_id == right.row_id
        and left.event_time == right.event_time
        and left.alive == right.alive
        and same_cells(left.key, right.key)
        and same_cells(left.values, right.values)
    )


def _listed(facts: Sequence[Fact]) -> str:
    lines = [
        f"\n    {fact.event_time} {fact.key} {fact.values if fact.alive else 'gone'} "
        f"{fact.row_id.hex()}"
        for fact in facts
    ]
    return "".join(lines) or " nothing"


def _answers_differ(
    dataset: Dataset, judge: QueryEngine, engine: PartialQueryEngine, instants: Sequence[int]
) -> str | None:
    keys = _keys(dataset, judge)
    asked = [(key, instant) for key in keys for instant in instants]
    columns = ([key for key, _ in asked], [instant for _, instant in asked])
    wanted = judge.lookup(dataset.name, *columns)
    found = engine.lookup(dataset.name, *columns)
    for (key, instant), left, right in zip(asked, wanted, found, strict=True):
        if not _same_answer(left, right):
            place = f"`{dataset.name}` {key} as of {instant}"
            return f"{place} gives {right}\n  but means {left}"
    return None


def _keys(dataset: Dataset, judge: QueryEngine) -> list[tuple[Cell, ...]]:
    """Return every key that ever existed."""
    columns = dataset.schema.keys
    found: dict[bytes, tuple[Cell, ...]] = {}
    for fact in judge.facts(dataset.name):
        rendered = [cell_bytes(c.type)(cell) for c, cell in zip(columns, fact.key, strict=True)]
        found.setdefault(b"".join(rendered), fact.key)
    return list(found.values())


def _same_answer(left: Answer | None, right: Answer | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.event_time == right.event_time and same_cells(left.values, right.values)
