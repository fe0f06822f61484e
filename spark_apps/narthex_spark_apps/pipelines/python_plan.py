"""A pipeline's steps on rows in Python: joins, user code and what Spark's expressions lack.

The Python backend evaluates expressions, sandboxed workers run user code, and the owner of the
indexes looks rows up. A row that does not pass a step becomes a tombstone: it may have passed
before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import pyarrow as pa

from narthex._expr import fit
from narthex._expr.python import prepare
from narthex._formats.avro import key_bytes as key_bytes_of
from narthex._formats.avro import keyed_row_id
from narthex._ir import (
    Aggregate,
    Assign,
    AssignCode,
    Cell,
    DatasetRef,
    DataType,
    Drop,
    DropNull,
    Fact,
    Filter,
    Join,
    JoinHow,
    Latest,
    LogSpec,
    Operator,
    Optional,
    PipelineInput,
    Rename,
    RowId,
    Select,
    UserCode,
    Version,
    inner,
    optional,
)
from narthex._runtime.workers import CodeCalls, array_of, cells_of
from narthex_stores import LookupResult

JoinLookup: TypeAlias = Callable[
    [str, Sequence[tuple[Cell, ...]], Sequence[int], Sequence[int | None]],
    Sequence[LookupResult | None],
]
"""Right dataset, keys, instants and how far back to look; returns each key's newest row or None."""


@attrs.define
class PlanRow:
    """One row between steps: its identity, and its columns by public name."""

    row_id: RowId
    version: Version
    event_time: int
    alive: bool
    cells: dict[str, Cell]


@attrs.frozen(kw_only=True)
class PlanRows:
    """Rows after a step, with the types of their columns.

    Attributes:
        fixed: Keys and the event time, which `select` always keeps.
        group: The columns that identify the rows of a `latest`.
    """

    rows: list[PlanRow]
    types: Mapping[str, DataType]
    fixed: frozenset[str]
    group: tuple[str, ...] | None = None


@attrs.frozen(kw_only=True)
class RowPlan:
    """The steps of one pipeline."""

    operators: Operator
    stream: PipelineInput
    rights: Mapping[str, PipelineInput]
    log: LogSpec
    workers: CodeCalls

    def run(
        self, facts: Sequence[Fact], *, lookup: JoinLookup, version_suffix: bytes
    ) -> list[Fact]:
        """Turn facts of the stream side into facts of the pipeline's log.

        Args:
            facts: States of the stream side, including tombstones.
            lookup: Looks up right rows, all from one state of their indexes.
            version_suffix: Orders this computation after earlier ones of the same rows.
        """
        log = self.stream.log
        names = [column.name for column in (*log.keys, *log.values)]
        rows = [
            PlanRow(
                row_id=fact.row_id,
                version=Version(fact.version + version_suffix),
                event_time=fact.event_time,
                alive=fact.alive,
                cells={
                    **dict(zip(names, (*fact.key, *fact.values), strict=True)),
                    log.time_field: fact.event_time,
                },
            )
            for fact in facts
        ]
        begin = PlanRows(
            rows=rows,
            types=self.stream.schema.columns,
            fixed=frozenset({column.name for column in log.keys} | {log.time_field}),
        )
        done = self._steps(self.operators, begin, lookup)
        return [self._fact(row, done.group) for row in done.rows]

    def _steps(self, operator: Operator, begin: PlanRows, lookup: JoinLookup) -> PlanRows:
        if isinstance(operator, DatasetRef):
            return begin
        given = self._steps(operator.input, begin, lookup)
        match operator:
            case Join():
                return self._join(operator, given, lookup)
            case Filter(predicate=UserCode() as code):
                return self._filter_code(code, given)
            case AssignCode():
                return self._assign_code(operator, given)
            case Aggregate():
                return given
            case Latest(by=by):
                return attrs.evolve(given, group=by)
            case _:
                return _computed(operator, given)

    def _join(self, join: Join, given: PlanRows, lookup: JoinLookup) -> PlanRows:
        right = self.rights[join.right.dataset]
        alive = [row for row in given.rows if row.alive]
        left_of = {right_name: left_name for left_name, right_name in join.on}
        order = [left_of[column.name] for column in right.log.keys]
        asked = [row for row in alive if all(row.cells[name] is not None for name in order)]
        low, high = join.within_low_us, join.within_high_us
        found = lookup(
            join.right.dataset,
            [tuple(row.cells[name] for name in order) for row in asked],
            [row.event_time + high for row in asked],
            [None if low is None else row.event_time - low for row in asked],
        )
        matched = {id(row): one for row, one in zip(asked, found, strict=True)}
        places = {column.name: place for place, column in enumerate(right.log.values)}
        for row in given.rows:
            match = matched.get(id(row))
            for name in join.fields:
                row.cells[name] = _taken(match, places.get(name))
            if match is None and join.how is JoinHow.INNER:
                row.alive = False
        taken = {name: right.schema.columns[name] for name in join.fields}
        if join.how is JoinHow.LEFT:
            taken = {name: optional(of) for name, of in taken.items()}
        return attrs.evolve(given, types={**given.types, **taken})

    def _table(self, rows: Sequence[PlanRow], types: Mapping[str, DataType]) -> pa.Table:
        return pa.table(
            {name: array_of([row.cells[name] for row in rows], of) for name, of in types.items()}
        )

    def _filter_code(self, code: UserCode, given: PlanRows) -> PlanRows:
        alive = [row for row in given.rows if row.alive]
        if alive:
            kept = self.workers.filter(code, self._table(alive, given.types)).to_pylist()
            for row, keep in zip(alive, kept, strict=True):
                row.alive = bool(keep)
        return given

    def _assign_code(self, operator: AssignCode, given: PlanRows) -> PlanRows:
        column = operator.column
        alive = [row for row in given.rows if row.alive]
        # The code may read the column that it overwrites, so the table comes first.
        table = self._table(alive, given.types)
        for row in given.rows:
            row.cells[column.name] = None
        if alive:
            cells = cells_of(self.workers.assign(operator.code, table, column), column.type)
            for row, cell in zip(alive, cells, strict=True):
                row.cells[column.name] = cell
        return attrs.evolve(given, types={**given.types, column.name: column.type})

    def _fact(self, row: PlanRow, group: tuple[str, ...] | None) -> Fact:
        key = tuple(row.cells[column.name] for column in self.log.keys)
        values = tuple(row.cells[column.name] for column in self.log.values)
        row_id, version = row.row_id, row.version
        if group is not None:
            row_id, version = (
                keyed_row_id(key_bytes_of(self.log.keys, key), row.event_time),
                Version(row.row_id + row.version),
            )
        return Fact(
            row_id=row_id,
            version=version,
            event_time=row.event_time,
            key=key,
            values=values if row.alive else (None,) * len(values),
            alive=row.alive,
        )


def _taken(match: LookupResult | None, place: int | None) -> Cell:
    """Return a right column; the event time of the right is not a value of its log."""
    if match is None:
        return None
    return match.event_time if place is None else match.values[place]


def _filter(operator: Filter, given: PlanRows) -> PlanRows:
    if isinstance(operator.predicate, UserCode):
        raise TypeError("a predicate in Python is called in a worker")
    holds = prepare(operator.predicate, given.types)
    for row in given.rows:
        row.alive = row.alive and holds(row.cells, row.event_time) is True
    return given


def _assign(operator: Assign, given: PlanRows) -> PlanRows:
    types = dict(given.types)
    for one in operator.assignments:
        types[one.column] = one.type
    prepared = [
        (one, prepare(fit(one.expression, given.types, target=one.type), given.types))
        for one in operator.assignments
    ]
    for row in given.rows:
        if not row.alive:
            row.cells |= dict.fromkeys((one.column for one, _ in prepared), None)
            continue
        row.cells |= {one.column: value(row.cells, row.event_time) for one, value in prepared}
        # A row whose expression has no value in a required column does not exist.
        row.alive = all(
            isinstance(one.type, Optional) or row.cells[one.column] is not None
            for one, _ in prepared
        )
    return attrs.evolve(given, types=types)


def _computed(operator: Operator, given: PlanRows) -> PlanRows:
    match operator:
        case Filter():
            return _filter(operator, given)
        case Assign():
            return _assign(operator, given)
        case Select(columns=columns):
            chosen = given.fixed | set(columns)
            return _named(given, {name: name for name in given.types if name in chosen})
        case Drop(columns=columns):
            return _named(given, {name: name for name in given.types if name not in set(columns)})
        case Rename(names=names):
            renamed = dict(names)
            return _named(given, {renamed.get(name, name): name for name in given.types})
        case DropNull(columns=columns):
            return _drop_null(columns, given)
        case _:
            raise TypeError(f"{type(operator).__name__} is not a row operator")


def _drop_null(columns: tuple[str, ...], given: PlanRows) -> PlanRows:
    for row in given.rows:
        row.alive = row.alive and all(row.cells[name] is not None for name in columns)
    types = {name: inner(of) if name in set(columns) else of for name, of in given.types.items()}
    return attrs.evolve(given, types=types)


def _named(given: PlanRows, sources: Mapping[str, str]) -> PlanRows:
    for row in given.rows:
        row.cells = {new: row.cells[old] for new, old in sources.items()}
    fixed = frozenset(new for new, old in sources.items() if old in given.fixed)
    types = {new: given.types[old] for new, old in sources.items()}
    return attrs.evolve(given, types=types, fixed=fixed)
