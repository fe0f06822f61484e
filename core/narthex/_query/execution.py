"""Execute a query by its read plan: lookups, expressions, authors' extractors, in order.

Online and offline answers are computed here, so they cannot differ; the lookup of rows is an
argument.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never

import attrs
import polars as pl

from narthex._expr.polars.columns import COLUMNAR_ROWS, cells_of, frame_of
from narthex._expr.polars.evaluation import evaluate
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.assets import DatasetPlan
from narthex._ir.expression_nodes import Call, Case, Node
from narthex._ir.facts import Cell
from narthex._ir.node_schema import listed
from narthex._ir.schema import Column
from narthex._ir.types import Date, Datetime
from narthex._query.explanations import Explanations
from narthex._query.lookup_batch import Lookup, LookupBatch, RequestedKeys, taken_columns
from narthex._query.read_plan import (
    AliasStep,
    CodeStep,
    ExpressionStep,
    LookupRequest,
    LookupStep,
    ReadPlan,
    Step,
    own_default,
)
from narthex._runtime.workers import Callers
from narthex._runtime.workers.lookups import Find, LookupRow
from narthex.errors import LookupImpossible

__all__ = [
    "Lookup",
    "WholeRow",
    "execute",
    "rows_finder",
    "whole_columns",
    "whole_rows",
]


Cells: TypeAlias = Sequence[Cell]


def execute(  # noqa: PLR0913 (keywords)
    plan: ReadPlan,
    columns: Mapping[str, Cells] | pl.DataFrame,
    *,
    lookup: Lookup,
    workers: Callers,
    as_of: Sequence[int],
    explanations: Explanations | None = None,
    end_reading: Callable[[], None] | None = None,
) -> dict[str, Cells]:
    """Return the wanted features, one cell per row.

    Args:
        plan: The query's plan.
        columns: The given features, fully qualified; a frame's are encoded as in
            `narthex._expr.polars`.
        lookup: Finds rows; called once for each dataset and wave of lookups.
        workers: Run authors' code.
        as_of: The instant of each row, microseconds.
        explanations: Is filled with the origins of all features.
        end_reading: Called after the last step that looks rows up, before later code runs.

    Raises:
        UserCodeError: An author's code failed, or returned something other than it declares.
    """
    answer = _Answer(plan, _given(plan, columns), lookup, workers, as_of, explanations)
    if explanations is not None:
        explanations.given(plan.inputs)
    for place, step in enumerate(plan.steps):
        if end_reading is not None and place == plan.reading_steps:
            end_reading()
        answer.take(step)
    return {name: answer.columns[name] for name in plan.outputs}


def _note_sources(explanations: Explanations, step: Step, columns: Mapping[str, Cells]) -> None:
    match step:
        case LookupStep():
            pass  # noted with its rows
        case AliasStep():
            replaced = [step.null is not None and cell is None for cell in columns[step.source]]
            explanations.computed([step.feature], [step.source], replaced)
        case ExpressionStep():
            explanations.computed([step.feature], [feature for _, feature in step.refs])
        case CodeStep():
            explanations.computed(step.features, [column.name for column in step.inputs])
        case _:
            assert_never(step)


def _given(plan: ReadPlan, columns: Mapping[str, Cells] | pl.DataFrame) -> dict[str, Cells]:
    if isinstance(columns, pl.DataFrame):
        return {name: cells_of(columns[name], plan.types[name]) for name in plan.inputs}
    return {name: columns[name] for name in plan.inputs}


class _Answer:
    """The columns known so far."""

    def __init__(
        self,
        plan: ReadPlan,
        columns: dict[str, Cells],
        lookup: Lookup,
        workers: Callers,
        as_of: Sequence[int],
        explanations: Explanations | None,
    ) -> None:
        self.plan = plan
        self.explanations = explanations
        self.columns = columns
        self.lookup = lookup
        self.workers = workers
        self.as_of = as_of
        self.batches: dict[object, tuple[LookupBatch, list[RequestedKeys]]] = {}

    def take(self, step: Step) -> None:
        """Compute the features of a step, and note their origins."""
        match step:
            case LookupStep():
                self.look_up(step)
            case AliasStep():
                self.keep(step.feature, _renamed(step, self.columns[step.source]))
            case ExpressionStep():
                self.keep(step.feature, self.computed(step))
            case CodeStep():
                self.run(step)
            case _:
                assert_never(step)
        if self.explanations is not None:
            _note_sources(self.explanations, step, self.columns)

    def keep(self, feature: str, cells: Cells) -> None:
        """Add a column unless it was given; given columns take precedence."""
        self.columns.setdefault(feature, cells)

    def look_up(self, step: LookupStep) -> None:
        """Read the rows for all keys of the step at once, each pair of key and instant once."""
        batch, asked = self.asked(step.requests)
        answers = batch.answers(step.dataset, self.lookup)
        for request, one in zip(step.requests, asked, strict=True):
            rows = [None if place is None else answers[place] for place in one.places]
            columns = taken_columns(request.takes, one.keys, rows)
            for take, cells in zip(request.takes, columns, strict=True):
                self.keep(take.feature, one.grouped(cells))
                if self.explanations is not None:
                    self.explanations.looked_up(step.dataset, take, one, rows)

    def asked(self, requests: Sequence[LookupRequest]) -> tuple[LookupBatch, list[RequestedKeys]]:
        """Return the keys of requests; many datasets are often looked up by the same ones."""
        by = tuple((request.keys, request.is_list) for request in requests)
        known = self.batches.get(by)
        if known is None:
            batch = LookupBatch()
            keys = [batch.add(request, self.columns, self.as_of) for request in requests]
            known = self.batches[by] = batch, keys
        return known

    def computed(self, step: ExpressionStep) -> Cells:
        """Evaluate an expression, by row or by column; the results are the same."""
        if len(self.as_of) < COLUMNAR_ROWS or not step.refs or _reads_the_clock(step.expression):
            return [
                step.prepared({name: self.columns[feature][row] for name, feature in step.refs}, at)
                for row, at in enumerate(self.as_of)
            ]
        frame = frame_of({name: self.columns[feature] for name, feature in step.refs}, step.schema)
        series = evaluate(step.expression, frame, step.schema)
        return cells_of(series, self.plan.types[step.feature])

    def run(self, step: CodeStep) -> None:
        """Run an author's extractor in a worker."""
        given = {column.name: self.columns[column.name] for column in step.inputs}
        outputs = self.workers.reaching(step.features).extract(
            step.extractor.code,
            name=f"{step.featureset}.{step.extractor.name}",
            instants=self.as_of,
            inputs=[(column, given[column.name]) for column in step.inputs],
            outputs=step.outputs,
            find=_only(step, rows_finder(self.plan.datasets, self.lookup)),
        )
        for feature, cells in zip(step.features, outputs, strict=True):
            self.keep(feature, cells)


@attrs.frozen
class WholeRow:
    """A row with all fields of its dataset: keys, values, event time.

    Attributes:
        is_found: Whether the row was found. If not, the keys are the requested ones, and each
            value is null or its aggregate's default for an unseen key.
    """

    values: tuple[Cell, ...]
    is_found: bool


def whole_columns(plan: DatasetPlan) -> list[Column]:
    """Return the columns of a whole row."""
    schema = plan.schema
    return [*schema.keys, *schema.values, Column(schema.timestamp, Datetime())]


def whole_rows(
    plan: DatasetPlan,
    keys: Sequence[tuple[Cell, ...]],
    as_of: Sequence[int],
    *,
    lookup: Lookup,
) -> list[WholeRow]:
    """Return the rows of a dataset by key, each as of its instant; a null key finds no row."""
    known = [at for at, key in enumerate(keys) if None not in key]
    rows = lookup(plan, [keys[at] for at in known], [as_of[at] for at in known]) if known else ()
    found = dict(zip(known, rows, strict=True))
    unseen = (*(own_default(plan, column.name) for column in plan.schema.values), None)
    made: list[WholeRow] = []
    for at, key in enumerate(keys):
        row = found.get(at)
        if row is None:
            made.append(WholeRow((*key, *unseen), is_found=False))
        else:
            made.append(WholeRow((*key, *row.values, row.event_time), is_found=True))
    return made


def _only(step: CodeStep, find: Find) -> Find:
    """Return a lookup function that is limited to the datasets that an extractor names."""
    extractor = step.extractor

    def permitted(
        dataset: str, keys: Mapping[str, Cells], as_of: Sequence[int]
    ) -> tuple[Sequence[Column], Sequence[LookupRow]]:
        if dataset not in extractor.datasets:
            raise LookupImpossible(
                f"extractor `{step.featureset}.{extractor.name}` looks up `{dataset}`, which is "
                f"not in its `deps`; they are {listed(extractor.datasets)}",
                origin=extractor.origin,
                hint=f"write `@extractor(deps=[{dataset}])`",
            )
        return find(dataset, keys, as_of)

    return permitted


def rows_finder(datasets: Mapping[str, DatasetPlan], lookup: Lookup) -> Find:
    """Return the function that answers authors' own lookups, by dataset name."""

    def find(
        dataset: str, keys: Mapping[str, Cells], as_of: Sequence[int]
    ) -> tuple[list[Column], list[WholeRow]]:
        plan = datasets.get(dataset)
        if plan is None or not (plan.online or plan.offline):
            raise LookupImpossible(f"dataset `{dataset}` has no index to look up")
        names = [column.name for column in plan.schema.keys]
        if sorted(names) != sorted(keys):
            raise LookupImpossible(f"a lookup of `{dataset}` names {sorted(keys)}, not {names}")
        cells = (_key_cells(dataset, column, keys[column.name]) for column in plan.schema.keys)
        asked = list(zip(*cells, strict=True))
        return whole_columns(plan), whole_rows(plan, asked, as_of, lookup=lookup)

    return find


def _key_cells(dataset: str, column: Column, given: Cells) -> list[Cell]:
    """Convert keys from Arrow to cells of the key's type; instants and days already are cells."""
    if isinstance(column.type, Datetime | Date):
        if all(cell is None or type(cell) is int for cell in given):
            return list(given)
        raise LookupImpossible(f"a lookup of `{dataset}` by `{column.name}` has other values")
    try:
        return [None if cell is None else coerce(cell, column.type) for cell in given]
    except MistypedError as error:
        raise LookupImpossible(f"a lookup of `{dataset}` by `{column.name}`: {error}") from None


def _renamed(step: AliasStep, cells: Cells) -> Cells:
    if step.null is None:
        return cells
    return [step.null if cell is None else cell for cell in cells]


def _reads_the_clock(node: Node) -> bool:
    match node:
        case Call():
            return node.function == "now" or any(
                _reads_the_clock(argument) for argument in node.arguments
            )
        case Case():
            parts = [part for branch in node.branches for part in (branch.condition, branch.value)]
            return any(_reads_the_clock(part) for part in (*parts, node.otherwise))
        case _:
            return False
