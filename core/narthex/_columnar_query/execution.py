"""Execute a read plan by column: each feature is a series with one element per row."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, assert_never

import attrs
import polars as pl

from narthex._expr.now import at_event_time
from narthex._expr.polars.columns import cells_of, polars_type, series_of
from narthex._expr.polars.evaluation import evaluate
from narthex._ir.assets import DatasetPlan
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Datetime, Float, Int, base_type, inner
from narthex._query.read_plan import (
    AliasStep,
    CodeStep,
    ExpressionStep,
    LookupRequest,
    LookupStep,
    ReadPlan,
    Step,
    Take,
)
from narthex._runtime.workers import Callers

FOUND: Final = "found"
"""The column of a lookup's result that is true for the keys that were found."""

EVENT_TIME: Final = "event_time"
"""The column of a lookup's result with the event times of the rows, microseconds."""

_INSTANT: Final = "as of"
"""The instant of a row in an expression with `now()`; no feature has a name with a blank."""


def key_name(column: Column) -> str:
    """Return the name of a key column in the keys of a lookup."""
    return f"k_{column.name}"


def value_name(column: Column) -> str:
    """Return the name of a value column in the rows of a lookup."""
    return f"v_{column.name}"


class ColumnarLookup(Protocol):
    """Finds the rows of a dataset, one key for each row of the query, as of that row's instant."""

    def __call__(
        self, plan: DatasetPlan, keys: pl.DataFrame, take: Sequence[Column]
    ) -> pl.DataFrame:
        """Return `FOUND`, `EVENT_TIME`, and a column `value_name` for each one of `take`.

        Args:
            plan: The dataset.
            keys: A column `key_name` for each key column; a key with a null finds no row.
            take: The value columns that are wanted.
        """


def is_columnar(plan: ReadPlan) -> bool:
    """Return whether `execute_columns` can execute a plan.

    It cannot look up lists of keys, or call code that looks rows up itself.
    """
    return all(_is_columnar(plan, step) for step in plan.steps)


def _is_columnar(plan: ReadPlan, step: Step) -> bool:
    match step:
        case LookupStep():
            takes = [take for request in step.requests for take in request.takes]
            return all(not request.is_list for request in step.requests) and all(
                _fits(_taken_type(step.dataset, take), plan.types[take.feature]) for take in takes
            )
        case AliasStep():
            return _fits(plan.types[step.source], plan.types[step.feature])
        case ExpressionStep():
            return True
        case CodeStep():
            return not step.extractor.datasets
        case _:
            assert_never(step)


def _fits(of: DataType, target: DataType) -> bool:
    """Whether elements of a type are those of another one, or become them by a cast."""
    given, wanted = base_type(inner(of)), base_type(inner(target))
    return given == wanted or (isinstance(given, Int) and isinstance(wanted, Float))


def _taken_type(dataset: DatasetPlan, take: Take) -> DataType:
    schema = dataset.schema
    if take.column == schema.timestamp:
        return Datetime()
    named = {column.name: column.type for column in (*schema.keys, *schema.values)}
    return named[take.column]


def execute_columns(
    plan: ReadPlan,
    columns: pl.DataFrame,
    *,
    lookup: ColumnarLookup,
    workers: Callers,
    as_of: pl.Series,
    reached: Callable[[int, int], None] = lambda _done, _of: None,
) -> dict[str, pl.Series]:
    """Return the wanted features, one element per row; `is_columnar` accepts the plan.

    Args:
        plan: The query's plan.
        columns: The given features, encoded as in `narthex._expr.polars`.
        lookup: Finds rows; called once for each request for keys.
        workers: Run authors' code.
        as_of: The instant of each row, microseconds.
        reached: Called when all rows have passed a lookup or another step, with the number of those
            that they have passed, and the number of all.

    Raises:
        UserCodeError: An author's code failed, or returned something other than it declares.
    """
    answer = _ColumnarAnswer(
        plan, lookup, workers, as_of, {name: columns[name] for name in plan.inputs}
    )
    works = [work for step in plan.steps for work in _works(answer, step)]
    for done, work in enumerate(works, start=1):
        work()
        reached(done, len(works))
    return {name: answer.series[name] for name in plan.outputs}


def _works(answer: "_ColumnarAnswer", step: Step) -> Iterator[Callable[[], None]]:
    """Yield what computes a step: one call for each of its requests for keys, or a single one."""
    match step:
        case LookupStep():
            for request in step.requests:
                yield functools.partial(answer.look_up, step.dataset, request)
        case AliasStep():
            yield functools.partial(answer.rename, step)
        case ExpressionStep():
            yield functools.partial(answer.compute, step)
        case CodeStep():
            yield functools.partial(answer.run, step)
        case _:
            assert_never(step)


@attrs.frozen
class _ColumnarAnswer:
    """The series known so far."""

    plan: ReadPlan
    lookup: ColumnarLookup
    workers: Callers
    as_of: pl.Series
    series: dict[str, pl.Series]

    def keep(self, feature: str, series: pl.Series) -> None:
        """Add a series unless it was given; given columns take precedence."""
        self.series.setdefault(feature, series.cast(polars_type(self.plan.types[feature])))

    def look_up(self, dataset: DatasetPlan, request: LookupRequest) -> None:
        """Find the rows of all keys of a request."""
        schema = dataset.schema
        keys = pl.DataFrame(
            [
                self.series[feature].alias(key_name(column))
                for feature, column in zip(request.keys, schema.keys, strict=True)
            ]
        )
        wanted = {take.column for take in request.takes}
        values = [column for column in schema.values if column.name in wanted]
        rows = self.lookup(dataset, keys, values)
        given = {column.name: keys[key_name(column)] for column in schema.keys}
        given[schema.timestamp] = rows[EVENT_TIME]
        given |= {column.name: rows[value_name(column)] for column in values}
        for take in request.takes:
            of = self.plan.types[take.feature]
            taken = given[take.column].cast(polars_type(of))
            self.keep(take.feature, _taken(taken, rows[FOUND], take, of))

    def rename(self, step: AliasStep) -> None:
        """Repeat a feature under another name."""
        of = self.plan.types[step.feature]
        renamed = self.series[step.source].cast(polars_type(of))
        self.keep(step.feature, _without_null(renamed, step.null, of))

    def compute(self, step: ExpressionStep) -> None:
        """Evaluate an expression; `now()` is the instant of the row."""
        frame = pl.DataFrame(
            [
                self.as_of.alias(_INSTANT),
                *(self.series[feature].alias(name) for name, feature in step.refs),
            ]
        )
        expression = at_event_time(step.expression, _INSTANT)
        schema: Mapping[str, DataType] = {**step.schema, _INSTANT: Datetime()}
        self.keep(step.feature, evaluate(expression, frame, schema))

    def run(self, step: CodeStep) -> None:
        """Run an author's extractor in a worker."""
        inputs = [
            (column, cells_of(self.series[column.name], column.type)) for column in step.inputs
        ]
        outputs = self.workers.reaching(step.features).extract(
            step.extractor.code,
            name=f"{step.featureset}.{step.extractor.name}",
            instants=self.as_of.to_list(),
            inputs=inputs,
            outputs=step.outputs,
        )
        for feature, cells in zip(step.features, outputs, strict=True):
            self.keep(feature, series_of(feature, cells, self.plan.types[feature]))


def _taken(taken: pl.Series, found: pl.Series, take: Take, of: DataType) -> pl.Series:
    """Return a column of the rows that were found, with the defaults of the feature."""
    filled = _without_null(taken, take.null, of)
    chosen = pl.when(pl.lit(found)).then(pl.lit(filled)).otherwise(_literal(take.unseen, of))
    return pl.select(chosen).to_series()


def _without_null(series: pl.Series, default: Cell, of: DataType) -> pl.Series:
    if default is None:
        return series
    return pl.select(pl.coalesce(pl.lit(series), _literal(default, of))).to_series()


def _literal(cell: Cell, of: DataType) -> pl.Expr:
    return pl.lit(series_of("literal", [cell], of)).first()
