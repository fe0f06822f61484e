"""Check an engine with cases: every order of arrival must give the expected answers."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

from narthex._formats import key_bytes, keyed_row_id
from narthex._ir import Cell, Definitions, Fact, Schema
from narthex._sdk.datasets import dataset_entity
from narthex_reference.cell_equality import same_cells
from narthex_reference.conformance.arrivals import Arrival, arrivals
from narthex_reference.conformance.case import (
    Ask,
    ConformanceCase,
    ExpectedLookup,
    ExpectedRows,
    Missing,
)
from narthex_reference.engine import Answer, Engine, PartialQueryEngine

EngineFactory: TypeAlias = Callable[[Definitions], Engine]
"""Creates an engine without facts."""


class CaseFailed(AssertionError):
    """An engine's answer differs from the expected answer of a case."""


def check(
    case: ConformanceCase, engine_factory: EngineFactory, *, seed: int = 0, orders: int = 4
) -> None:
    """Judge an engine by a case, for several orders of arrival.

    Raises:
        CaseFailed: An answer differs; the message has the lookup and the order of arrival.
    """
    for number, arrival in enumerate(arrivals(case.facts, seed=seed, count=orders)):
        engine = engine_factory(case.definitions)
        feed(engine, arrival)
        for ask in case.asks:
            wrong = differs(ask, engine)
            if wrong is not None:
                raise CaseFailed(f"{case.name} (order {number} of seed {seed}): {wrong}")


def feed(engine: Engine, arrival: Arrival) -> None:
    """Append facts as they arrive."""
    for dataset, facts in arrival:
        engine.append(dataset, facts)


def differs(ask: Ask, engine: PartialQueryEngine) -> str | None:
    """Return how an engine's answer differs from the expected one; None when it does not.

    Rows of a dataset are not compared if the engine does not keep them.
    """
    entity = dataset_entity(ask.dataset)
    match ask:
        case ExpectedLookup():
            (answer,) = engine.lookup(entity.name, [ask.key], [ask.as_of])
            return _not_found(ask, answer, entity.name)
        case Missing():
            (answer,) = engine.lookup(entity.name, [ask.key], [ask.as_of])
            place = f"{entity.name}{ask.key} as of {ask.as_of}"
            return None if answer is None else f"{place} gives {answer}, wanted nothing"
        case ExpectedRows():
            facts = engine.facts(entity.name)
            if facts is None:
                return None
            rows = [_cells(fact, entity.schema) for fact in facts]
            wrong = _not_same_rows(rows, ask.rows, entity.name)
            return wrong or _wrong_identity(facts, entity.schema, entity.name)
        case _:
            assert_never(ask)


def _not_found(ask: ExpectedLookup, answer: Answer | None, name: str) -> str | None:
    place = f"{name}{ask.key} as of {ask.as_of}"
    if answer is None:
        return f"{place}: found no row, expected {ask.values}"
    if not same_cells(answer.values, ask.values):
        return f"{place}: found {answer.values}, expected {ask.values}"
    if ask.event_time is not None and answer.event_time != ask.event_time:
        return f"{place}: found event time {answer.event_time}, expected {ask.event_time}"
    return None


def _not_same_rows(
    rows: Sequence[tuple[Cell, ...]], wanted: Sequence[tuple[Cell, ...]], name: str
) -> str | None:
    if len(rows) == len(wanted) and all(map(same_cells, rows, wanted)):
        return None
    listed = "".join(f"\n    {row}" for row in rows)
    return f"{name} has{listed or ' nothing'}\n  wanted" + "".join(f"\n    {r}" for r in wanted)


def _wrong_identity(facts: Sequence[Fact], schema: Schema, name: str) -> str | None:
    """Return an error if rows share an identity, or a keyed row's is not its key and instant."""
    if len({fact.row_id for fact in facts}) < len(facts):
        return f"{name} has two rows of one identity"
    if not schema.keys:
        return None
    for fact in facts:
        if fact.row_id != keyed_row_id(key_bytes(schema.keys, fact.key), fact.event_time):
            return f"{name} has a row whose identity is not its key and instant: {fact}"
    return None


def _cells(fact: Fact, schema: Schema) -> tuple[Cell, ...]:
    """Return a row's cells in the order of the fields; of an absence, key and event time."""
    named: dict[str, Cell] = {schema.timestamp: fact.event_time}
    named |= {column.name: cell for column, cell in zip(schema.keys, fact.key, strict=True)}
    if fact.alive:
        named |= {column.name: c for column, c in zip(schema.values, fact.values, strict=True)}
        return tuple(named[field.name] for field in schema.fields)
    return (*fact.key, fact.event_time)
