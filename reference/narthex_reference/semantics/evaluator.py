"""The reference engine: it computes all content from the facts."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from narthex._analysis import disorders, typed_datasets
from narthex._analysis.schemas import output_schema
from narthex._formats import key_bytes
from narthex._ir import (
    Aggregate,
    Assign,
    AssignCode,
    Average,
    Cell,
    Changelog,
    Column,
    Dataset,
    DatasetRef,
    Dedup,
    Definitions,
    Drop,
    DropNull,
    Explode,
    Fact,
    Filter,
    First,
    Join,
    Latest,
    Max,
    Min,
    NodeSchema,
    Operator,
    Quantile,
    Rename,
    RowId,
    Select,
    Stddev,
    Transform,
    Union,
    of_dataset,
)
from narthex._runtime.enforcement import RowJudge
from narthex_reference.engine import Answer, ContributingFact
from narthex_reference.semantics.aggregates import Group, find, groups, versions
from narthex_reference.semantics.author_code import UserCodeRunner
from narthex_reference.semantics.content import (
    Content,
    ContentRow,
    RowSource,
    content,
    fact_of,
    floor,
    histories,
    rows_of_facts,
)
from narthex_reference.semantics.folds import default_cell
from narthex_reference.semantics.grouped_rows import Contribution, contributions
from narthex_reference.semantics.identities import of_key
from narthex_reference.semantics.joins import join
from narthex_reference.semantics.reshaping import changelog, dedup, explode, first, latest, union
from narthex_reference.semantics.row_steps import row_step


class NotAskableError(ValueError):
    """The definitions do not support the query."""


def _with_ends(changes: Iterable[int], history_us: int | None) -> tuple[int, ...]:
    """Return instants in order, each also where a row of that instant becomes too old."""
    found = set(changes)
    if history_us is not None:
        found |= {instant + history_us + 1 for instant in found}
    return tuple(sorted(found))


class Reference:
    """Executes definitions exactly as `semantics.md` specifies.

    Its answers are a function of the definitions and of the set of facts: it keeps the facts and
    computes all content from them.
    """

    def __init__(self, definitions: Definitions, *, call: UserCodeRunner) -> None:
        """Begin without facts.

        Args:
            definitions: Correct ones: `narthex._analysis.graph.check` finds nothing in them.
            call: Runs authors' code.
        """
        typed = typed_datasets(definitions)
        self._datasets = {one.dataset.name: one.dataset for one in typed}
        self._infos = {one.info.name: one.info for one in typed}
        self._disorders = disorders(self._datasets.values())
        self._call = call
        self._appended: dict[str, list[Fact]] = {name: [] for name in self._datasets}
        self._contents: dict[str, Content] = {}
        self._groups: dict[str, Mapping[bytes, Group]] = {}
        self._histories: dict[str, Mapping[bytes, Sequence[ContentRow]]] = {}
        self._schemas: dict[int, NodeSchema] = {}

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Append facts of a dataset with sources; they may be unordered, late or repeated.

        Raises:
            NotAskableError: The dataset does not exist, or a pipeline fills it.
        """
        if self._dataset(dataset).pipelines:
            raise NotAskableError(f"`{dataset}` is filled by a pipeline")
        self._appended[dataset] += facts
        self._contents.clear()
        self._groups.clear()
        self._histories.clear()

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts, sorted by event time and row_id.

        For a dataset that ends in an aggregate they are the versions of its groups.

        Raises:
            NotAskableError: The dataset does not exist.
        """
        schema = self._dataset(dataset).schema
        return tuple(
            fact_of(row, schema.keys, schema.values) for row in self._content(dataset).rows
        )

    def value_columns(self, dataset: str) -> tuple[Column, ...]:
        """Return the columns of a lookup's result, in order.

        Raises:
            NotAskableError: The dataset does not exist.
        """
        return self._dataset(dataset).schema.values

    def rows(self, dataset: str) -> tuple[ContentRow, ...]:
        """Return the rows behind `facts`, with the facts that made each.

        Raises:
            NotAskableError: The dataset does not exist.
        """
        return self._content(dataset).rows

    def contributions(self, dataset: str) -> tuple[Contribution, ...]:
        """Return the rows that count in the aggregates that a dataset ends in.

        Raises:
            NotAskableError: The dataset does not exist, or does not end in aggregates.
        """
        step = self._aggregate(self._dataset(dataset))
        if step is None:
            raise NotAskableError(f"`{dataset}` does not end in an aggregate")
        return tuple(contributions(step, self._rows(step.input)))

    def instants(self, dataset: str) -> tuple[tuple[tuple[Cell, ...], tuple[int, ...]], ...]:
        """Return each key that ever existed, with the instants at which its value may change.

        With a history, it may also change when a row becomes too old.

        Raises:
            NotAskableError: The dataset does not exist, or has no key.
        """
        found = self._dataset(dataset)
        keys = found.schema.keys
        if not keys:
            raise NotAskableError(f"`{dataset}` has no key to look up")
        step = self._aggregate(found)
        if step is not None and step.window is None:
            return tuple(
                (
                    tuple(group.rows[0].row.cells[column.name] for column in keys),
                    _with_ends(group.changes(), found.history_us),
                )
                for group in self._grouped(dataset, step).values()
            )
        return tuple(
            (
                tuple(rows[0].cells[column.name] for column in keys),
                _with_ends((row.event_time for row in rows), found.history_us),
            )
            for rows in histories(self._content(dataset)).values()
        )

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant; None where the key has no value.

        Raises:
            NotAskableError: The dataset does not exist, or has no key.
        """
        return [
            None if found is None else found[0]
            for found in (self._find(dataset, *one) for one in zip(keys, as_of, strict=True))
        ]

    def newest(self, dataset: str) -> int | None:
        """Return the greatest event time of a dataset's rows; None without rows.

        Raises:
            NotAskableError: The dataset does not exist.
        """
        step = self._aggregate(self._dataset(dataset))
        if step is None:
            times = [row.event_time for row in self._content(dataset).rows if row.alive]
        else:
            times = [group.newest for group in self._grouped(dataset, step).values()]
        return max(times, default=None)

    def unseen(self, dataset: str) -> tuple[Cell, ...]:
        """Return the values of a key that was never seen: the aggregates' defaults.

        Raises:
            NotAskableError: The dataset does not exist.
        """
        step = self._aggregate(self._dataset(dataset))
        if step is None:
            return tuple(None for _ in self._dataset(dataset).schema.values)
        columns = self._schema(step.input).columns
        defaults: dict[str, Cell] = {}
        for spec in step.specs:
            match spec:
                case Min() | Max():
                    defaults[spec.into] = default_cell(spec.default, columns[spec.of])
                case Average() | Stddev() | Quantile():
                    defaults[spec.into] = spec.default
                case _:
                    defaults[spec.into] = None
        return tuple(defaults[column.name] for column in self._dataset(dataset).schema.values)

    def explain(
        self, dataset: str, key: tuple[Cell, ...], as_of: int
    ) -> tuple[ContributingFact, ...]:
        """Return the appended facts behind a lookup's result; empty if it finds nothing.

        For an aggregate they are those that count; an empty window has none.

        Raises:
            NotAskableError: The dataset does not exist, or has no key.
        """
        found = self._find(dataset, key, as_of)
        if found is None:
            return ()
        made = [
            ContributingFact(name, self._standing(name, row_id), row_id)
            for name, row_id in found[1]
        ]
        return tuple(sorted(made))

    def _standing(self, dataset: str, row_id: RowId) -> int:
        """Return the event time of a fact's current state."""
        states = [fact for fact in self._appended[dataset] if fact.row_id == row_id]
        return max(states, key=lambda fact: fact.version).event_time

    def _dataset(self, name: str) -> Dataset:
        try:
            return self._datasets[name]
        except KeyError:
            raise NotAskableError(f"there is no dataset `{name}`") from None

    @staticmethod
    def _aggregate(dataset: Dataset) -> Aggregate | None:
        terminal = dataset.pipelines[-1].terminal if dataset.pipelines else None
        return terminal if isinstance(terminal, Aggregate) else None

    def _find(
        self, name: str, key: tuple[Cell, ...], as_of: int
    ) -> tuple[Answer, frozenset[RowSource]] | None:
        dataset = self._dataset(name)
        keys, values = dataset.schema.keys, dataset.schema.values
        if not keys:
            raise NotAskableError(f"`{name}` has no key to look up")
        step = self._aggregate(dataset)
        oldest = self._oldest_visible(dataset, as_of)
        if step is None:
            row = floor(self._history(name, key_bytes(keys, key)), as_of)
            if row is None or not row.alive or (oldest is not None and row.event_time < oldest):
                return None
            cells, event_time, sources = row.cells, row.event_time, row.sources
        else:
            asked = {column.name: cell for column, cell in zip(keys, key, strict=True)}
            grouped, schema = self._grouped(name, step), self._schema(step)
            found = find(step, grouped, schema, asked, as_of, oldest=oldest)
            if found is None:
                return None
            cells, event_time, sources = found.cells, found.event_time, found.sources
        return Answer(tuple(cells[column.name] for column in values), event_time), sources

    def _oldest_visible(self, dataset: Dataset, as_of: int) -> int | None:
        """Return the event time before which a lookup sees no row; None if it sees all.

        A dataset's history ends at the lookup's instant, or at the watermark if that is earlier.
        """
        newest = None if dataset.history_us is None else self.newest(dataset.name)
        if dataset.history_us is None or newest is None:
            return None
        return min(as_of, newest - self._disorders[dataset.name]) - dataset.history_us

    def _history(self, name: str, key: bytes) -> Sequence[ContentRow]:
        if name not in self._histories:
            self._histories[name] = histories(self._content(name))
        return self._histories[name].get(key, ())

    def _grouped(self, name: str, step: Aggregate) -> Mapping[bytes, Group]:
        if name not in self._groups:
            self._groups[name] = groups(step, self._rows(step.input), self._schema(step))
        return self._groups[name]

    def _content(self, name: str) -> Content:
        """Return the rows of a dataset, cached until facts are appended."""
        if name not in self._contents:
            self._contents[name] = self._computed(self._dataset(name))
        return self._contents[name]

    def _computed(self, dataset: Dataset) -> Content:
        schema = of_dataset(self._infos[dataset.name])
        if not dataset.pipelines:
            return content(
                rows_of_facts(dataset.name, self._appended[dataset.name], schema), schema
            )
        made = self._rows(dataset.pipelines[-1].terminal).rows
        if schema.keys:
            made = tuple(
                attrs.evolve(row, row_id=of_key(row, schema.keys, row.event_time)) for row in made
            )
        # A row that breaks an enforced expectation never was; an absence is not judged.
        judge = RowJudge.of(dataset.enforced, dataset.schema.columns)
        made = tuple(row for row in made if not row.alive or not judge.broken(row.cells))
        return content(made, schema)

    def _schema(self, operator: Operator) -> NodeSchema:
        # The definitions outlive the reference's queries, so the ids of their steps are stable.
        if id(operator) not in self._schemas:
            self._schemas[id(operator)] = output_schema(operator, self._infos)
        return self._schemas[id(operator)]

    def _rows(self, operator: Operator) -> Content:
        """Return the rows of a step of a pipeline."""
        match operator:
            case DatasetRef(dataset=name):
                return self._content(name)
            case Join():
                return join(
                    operator,
                    self._rows(operator.input),
                    self._content(operator.right.dataset),
                    self._schema(operator),
                )
            case Union():
                left, right = self._rows(operator.input), self._rows(operator.other)
                return union(left, right, self._schema(operator))
            case Aggregate():
                return versions(operator, self._rows(operator.input), self._schema(operator))
            case _:
                return self._step(operator, self._rows(operator.input), self._schema(operator))

    def _step(
        self,
        operator: Filter
        | Assign
        | AssignCode
        | Transform
        | Select
        | Drop
        | Rename
        | DropNull
        | Dedup
        | Explode
        | Changelog
        | First
        | Latest,
        given: Content,
        schema: NodeSchema,
    ) -> Content:
        match operator:
            case Explode():
                return explode(operator, given, schema)
            case Dedup():
                return dedup(operator, given, schema)
            case Changelog():
                return changelog(operator, given, schema)
            case First():
                return first(given, schema)
            case Latest():
                return latest(given, schema)
            case _:
                return row_step(operator, given, schema, self._call)
