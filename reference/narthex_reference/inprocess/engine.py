"""The fast engine of unit tests: it computes whole datasets on demand, in columns."""

from collections.abc import Callable, Collection, Iterable, Sequence

import attrs

from narthex._analysis import TypedDataset, disorders, reads, typed_datasets
from narthex._analysis.schemas import is_live, output_schema
from narthex._ir import (
    Aggregate,
    Cell,
    Dataset,
    DatasetRef,
    Definitions,
    Fact,
    Join,
    NodeSchema,
    Operator,
    RowId,
    Union,
    of_dataset,
    oldest_visible,
)
from narthex._runtime.enforcement import ReportBroken, RowJudge
from narthex._runtime.steps import (
    ABSENT,
    PlainGroups,
    RowBatch,
    SetApart,
    StepContext,
    Timelines,
    WindowedGroups,
    apply_step,
    enforce,
    facts_of,
    rows_of,
    rows_of_dataset,
)
from narthex._runtime.workers import CodeCalls
from narthex.errors import EntityMissing, LookupImpossible
from narthex_reference.engine import Answer


@attrs.frozen
class Erased:
    """The erasures of a dataset: cells of its erase keys, which are some of its keys."""

    names: tuple[str, ...] = ()
    keys: frozenset[tuple[Cell, ...]] = frozenset()

    def apply(self, rows: RowBatch) -> RowBatch:
        """Remove erased rows; their tombstones stay, without values."""
        if not self.keys:
            return rows
        columns = [rows.cells[name] for name in self.names]
        erased = [key in self.keys for key in zip(*columns, strict=True)]
        return rows.take([at for at, is_erased in enumerate(erased) if not is_erased])

    def has(self, key: tuple[Cell, ...], dataset: Dataset) -> bool:
        """Whether the row of a key was erased."""
        names = [column.name for column in dataset.schema.keys]
        return bool(self.keys) and tuple(key[names.index(name)] for name in self.names) in self.keys


@attrs.frozen
class _Bound:
    """How far lookups of a dataset look back.

    Attributes:
        history_us: The dataset's history; None is for ever.
        disorder_us: How far its watermark is behind its newest row.
        newest: The greatest event time of its rows; None without rows.
    """

    history_us: int | None
    disorder_us: int
    newest: int | None = None

    def including(self, newest: int | None) -> "_Bound":
        known = [instant for instant in (self.newest, newest) if instant is not None]
        return attrs.evolve(self, newest=max(known, default=None))

    def oldest(self, as_of: int) -> int:
        watermark = None if self.newest is None else self.newest - self.disorder_us
        return oldest_visible(self.history_us, as_of, watermark)


class _Table:
    """A dataset of rows.

    `live` computes the values of a row, by its place, as of an instant, for values that change
    without a new row.
    """

    def __init__(
        self,
        rows: RowBatch,
        dataset: Dataset,
        bound: _Bound,
        live: Callable[[int, int], tuple[Cell, ...]] | None = None,
    ) -> None:
        self.rows = rows
        self._live = live
        self._bound = bound.including(max(rows.times, default=None))
        self._values = [rows.cells[column.name] for column in dataset.schema.values]
        self._timelines: Timelines | None = None

    @property
    def timelines(self) -> Timelines:
        if self._timelines is None:
            self._timelines = Timelines(self.rows)
        return self._timelines

    def answer(self, key: tuple[Cell, ...], as_of: int) -> Answer | None:
        timeline = self.timelines.of(key)
        answer = None if timeline is None else timeline.floor(as_of)
        if answer is None or answer[1] == ABSENT:
            return None
        if answer[0] < self._bound.oldest(as_of):
            return None
        if self._live is not None:
            return Answer(self._live(answer[1], as_of), answer[0])
        return Answer(tuple([column[answer[1]] for column in self._values]), answer[0])


class _Folded:
    """A dataset that ends in an aggregate: its values are computed on demand."""

    def __init__(
        self,
        groups: PlainGroups,
        dataset: Dataset,
        bound: _Bound,
        given: RowBatch | None,
        erased: Erased,
    ) -> None:
        self._groups = groups
        self._bound = bound.including(groups.newest)
        if given is not None:
            self._bound = self._bound.including(max(given.times, default=None))
        self._erased = erased
        self._dataset = dataset
        keys = [column.name for column in dataset.schema.keys]
        self._keys = [keys.index(column.name) for column in groups.schema.keys]
        values = [column.name for column in groups.schema.values]
        self._values = [values.index(column.name) for column in dataset.schema.values]
        self._table: _Table | None = None
        self._given = None if given is None else _Table(given, dataset, self._bound)

    @property
    def rows(self) -> RowBatch:
        return self.table.rows

    @property
    def table(self) -> _Table:
        if self._table is None:
            made = rows_of_dataset(self._groups.versions(), self._dataset.schema)
            given = None if self._given is None else self._given.rows
            rows = self._erased.apply(_with_given(made, given))
            self._table = _Table(rows, self._dataset, self._bound)
        return self._table

    @property
    def timelines(self) -> Timelines:
        return self.table.timelines

    def answer(self, key: tuple[Cell, ...], as_of: int) -> Answer | None:
        if self._erased.has(key, self._dataset):
            return None
        if self._given is not None:
            given = self._given.answer(key, as_of)
            if given is not None:
                return given
        oldest = self._bound.oldest(as_of)
        answer = self._groups.answer(tuple([key[at] for at in self._keys]), as_of, oldest=oldest)
        if answer is None:
            return None
        return Answer(tuple([answer[0][at] for at in self._values]), answer[1])


class InProcessEngine:
    """Executes definitions for unit tests.

    Its answers are a function of the definitions and of the set of facts. A dataset is computed as
    a whole on first use, and recomputed only after new facts of its inputs.
    """

    def __init__(
        self,
        definitions: Definitions,
        *,
        calls: CodeCalls,
        set_apart: SetApart | None = None,
        report_broken: ReportBroken | None = None,
    ) -> None:
        """Begin without facts.

        Args:
            definitions: Correct ones: `narthex._analysis.graph.check` finds nothing in them.
            calls: Runs authors' code.
            set_apart: Receives the rows on which code fails, as a job does; without it, the error
                is raised at once, as authors expect of their unit tests.
            report_broken: Receives the rows that break enforced expectations.
        """
        typed = typed_datasets(definitions)
        self._typed: dict[str, TypedDataset] = {one.dataset.name: one for one in typed}
        self._infos = {one.info.name: one.info for one in typed}
        self._disorders = disorders(one.dataset for one in typed)
        self._calls = calls
        self._set_apart = set_apart
        self._report_broken = report_broken
        self._given: dict[str, dict[RowId, Fact]] = {}
        self._erased: dict[str, Erased] = {}
        self._contents: dict[str, _Table | _Folded] = {}
        self._below = _below(typed)

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Append facts; they may be unordered, late or repeated.

        Facts of a dataset that a pipeline fills are added to the pipeline's rows.
        """
        standing = self._given.setdefault(self._one(dataset).dataset.name, {})
        for fact in facts:
            known = standing.get(fact.row_id)
            if known is None or known.version < fact.version:
                standing[fact.row_id] = fact
        for name in self._below[dataset]:
            self._contents.pop(name, None)

    def erase(self, dataset: str, keys: Collection[tuple[Cell, ...]]) -> None:
        """Leave out a dataset's rows whose erase keys have these cells, including later rows."""
        fields = self._one(dataset).dataset.schema.fields
        names = [field.name for field in fields if field.erase_key]
        self._erased[dataset] = Erased(tuple(names), frozenset(keys))
        for name in self._below[dataset]:
            self._contents.pop(name, None)

    def compute_below(self, dataset: str) -> None:
        """Compute a dataset and all that is derived from it, instead of on first use.

        Raises:
            UserCodeError: Code of an author failed on a row.
        """
        for name in sorted(self._below[dataset]):
            self._content(name)

    def given(self, dataset: str) -> tuple[Fact, ...]:
        """Return the appended facts that are current, in no order."""
        return tuple(self._given.get(dataset, {}).values())

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts, sorted by event time and row id.

        For a keyless dataset these are the rows without retracted ones; for a keyed one, the rows
        of every instant and the absences that end a row; for one that ends in an aggregate, the
        versions of its groups.
        """
        return facts_of(self._content(dataset).rows, self._one(dataset).dataset.schema.values)

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where the key has no value.

        Raises:
            LookupImpossible: The dataset has no key.
        """
        if not self._one(dataset).dataset.schema.keys:
            raise LookupImpossible(f"dataset `{dataset}` has no key to look up")
        content = self._content(dataset)
        return [content.answer(key, at) for key, at in zip(keys, as_of, strict=True)]

    def _one(self, name: str) -> TypedDataset:
        try:
            return self._typed[name]
        except KeyError:
            raise EntityMissing(f"dataset `{name}` is not known") from None

    def _content(self, name: str) -> _Table | _Folded:
        if name not in self._contents:
            self._contents[name] = self._computed(self._one(name))
        return self._contents[name]

    def _computed(self, one: TypedDataset) -> _Table | _Folded:
        dataset = one.dataset
        bound = _Bound(dataset.history_us, self._disorders[dataset.name])
        schema = of_dataset(self._infos[dataset.name])
        facts = self._given.get(dataset.name, {}).values()
        given = rows_of(facts, schema) if facts else None
        erased = self._erased.get(dataset.name, Erased())
        if not dataset.pipelines:
            rows = rows_of((), schema) if given is None else given
            return _Table(erased.apply(rows), dataset, bound)
        pipeline = dataset.pipelines[-1]
        title = f"`{dataset.name}.{pipeline.name}`"
        context = StepContext(calls=self._calls, title=title, set_apart=self._set_apart)
        terminal = pipeline.terminal
        if isinstance(terminal, Aggregate) and terminal.window is None:
            rows = self._rows(terminal.input, context)
            groups = PlainGroups(terminal, rows, self._schema(terminal))
            return _Folded(groups, dataset, bound, given, erased)
        if isinstance(terminal, Aggregate) and is_live(terminal):
            return self._live_spans(terminal, dataset, bound, context)
        made = rows_of_dataset(self._rows(terminal, context), dataset.schema)
        judge = RowJudge.of(dataset.enforced, dataset.schema.columns)
        made = enforce(made, judge, self._report_broken)
        return _Table(erased.apply(_with_given(made, given)), dataset, bound)

    def _live_spans(
        self, step: Aggregate, dataset: Dataset, bound: _Bound, context: StepContext
    ) -> _Table:
        groups = WindowedGroups(step, self._rows(step.input, context), self._schema(step))
        names = [column.name for column in groups.rows.schema.values]
        order = [names.index(column.name) for column in dataset.schema.values]

        def live(place: int, as_of: int) -> tuple[Cell, ...]:
            values = groups.values(place, as_of)
            return tuple([values[at] for at in order])

        return _Table(rows_of_dataset(groups.rows, dataset.schema), dataset, bound, live)

    def _schema(self, operator: Operator) -> NodeSchema:
        return output_schema(operator, self._infos)

    def _rows(self, operator: Operator, context: StepContext) -> RowBatch:
        """Return the rows of a step of a pipeline."""
        if isinstance(operator, DatasetRef):
            return self._content(operator.dataset).rows
        rows, schema = self._rows(operator.input, context), self._schema(operator)
        other = self._rows(operator.other, context) if isinstance(operator, Union) else None
        right = self._content(operator.right.dataset) if isinstance(operator, Join) else None
        return apply_step(
            operator,
            rows,
            other=other,
            right=None if right is None else right.timelines,
            schema=schema,
            context=context,
        )


def _with_given(made: RowBatch, given: RowBatch | None) -> RowBatch:
    """Merge a pipeline's rows with rows that a test logged; at the same place, the logged rows
    win.
    """
    if given is None:
        return made
    taken = {*given.ids, *(absence.id for absence in given.gone)}
    kept = made.take([at for at, row_id in enumerate(made.ids) if row_id not in taken])
    return attrs.evolve(
        kept,
        ids=[*kept.ids, *given.ids],
        times=[*kept.times, *given.times],
        cells={name: [*column, *given.cells[name]] for name, column in kept.cells.items()},
        gone=(*(one for one in kept.gone if one.id not in taken), *given.gone),
    )


def _below(typed: Iterable[TypedDataset]) -> dict[str, frozenset[str]]:
    """Map each dataset to itself and all its direct and indirect readers."""
    found: dict[str, set[str]] = {}
    for one in typed:
        name = one.dataset.name
        found.setdefault(name, set()).add(name)
        for below in found.values():
            if below & set(reads(one.dataset)):
                below.add(name)
    return {name: frozenset(below) for name, below in found.items()}
