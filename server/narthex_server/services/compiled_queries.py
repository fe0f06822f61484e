"""Queries that are prepared once for a snapshot: their plan, and the conversions of their cells."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from narthex._base import Json
from narthex._formats import CellsRenderer, Coercion, MistypedError, cells_renderer, coercion
from narthex._ir import Cell
from narthex._query import CodeStep, ReadPlan
from narthex_ledger import ReadEntity
from narthex_server.errors import InvalidRequest
from narthex_server.services.read_instants import read_by


@attrs.frozen(kw_only=True)
class CompiledQuery:
    """A read plan with the conversions of its inputs and outputs.

    Attributes:
        inputs: The coercion of each input to its type.
        outputs: The rendering of each output's cells.
        runs_code: Whether authors' code runs.
        datasets: The datasets that lookups read, also those of authors' code.
        reads: What counts as read by the query.
    """

    plan: ReadPlan
    inputs: tuple[tuple[str, Coercion], ...]
    outputs: tuple[tuple[str, CellsRenderer], ...]
    runs_code: bool
    datasets: frozenset[str]
    reads: frozenset[ReadEntity]

    def columns(
        self, data: Mapping[str, list[Any]] | Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, list[Cell]], int]:
        """Return the given columns as cells, and the number of rows.

        Raises:
            InvalidRequest: Columns are missing or differ in length, or values have other types.
        """
        raw = data if isinstance(data, Mapping) else self._by_column(data)
        missing = [name for name, _ in self.inputs if name not in raw]
        if missing:
            raise InvalidRequest(f"missing columns {', '.join(missing)}")
        lengths = {len(raw[name]) for name, _ in self.inputs}
        if len(lengths) > 1:
            raise InvalidRequest("columns differ in length")
        problems: list[str] = []
        columns = {name: _cells(name, raw[name], coerce, problems) for name, coerce in self.inputs}
        if problems:
            raise InvalidRequest("\n".join(problems))
        return columns, lengths.pop() if lengths else 0

    def _by_column(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        named = {name for row in rows for name in row}
        return {name: [row.get(name) for row in rows] for name, _ in self.inputs if name in named}

    def rendered(self, answers: Mapping[str, Sequence[Cell]]) -> dict[str, Sequence[Json]]:
        """Return the outputs as JSON values."""
        return {name: render(answers[name]) for name, render in self.outputs}


def compile_query(plan: ReadPlan) -> CompiledQuery:
    """Prepare the query of a read plan."""
    types = plan.types
    datasets = plan.looked_up.union(
        *(step.extractor.datasets for step in plan.steps if isinstance(step, CodeStep))
    )
    return CompiledQuery(
        plan=plan,
        inputs=tuple((name, coercion(types[name])) for name in plan.inputs),
        outputs=tuple((name, cells_renderer(types[name])) for name in plan.outputs),
        runs_code=any(isinstance(step, CodeStep) for step in plan.steps),
        datasets=datasets,
        reads=read_by(plan, datasets),
    )


def _cells(name: str, raw: Sequence[Any], coerce: Coercion, problems: list[str]) -> list[Cell]:
    """Return a column's cells; add what is wrong with single values to the problems."""
    try:
        return [coerce(value) for value in raw]
    except MistypedError:
        pass
    for number, value in enumerate(raw):
        try:
            coerce(value)
        except MistypedError as error:
            problems.append(f"row {number}, `{name}`: {error}")
    return []
