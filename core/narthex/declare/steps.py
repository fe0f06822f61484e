"""The symbolic rows that a pipeline's function is given: each method adds a step."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from narthex.aggregate_specs import AggregateSpec
from narthex.annotations import parse_annotation
from narthex.closure import resolve
from narthex.code import UserCode
from narthex.declare.aggregates import Aggregate as AggregateCall
from narthex.declare.expressions import node_of, type_of
from narthex.declare.operator_calls import (
    ColumnsArgument,
    read_columns,
    read_join_on,
    read_names,
    read_within,
)
from narthex.declare.places import author_origin
from narthex.errors import (
    AggregateInvalid,
    ColumnRoleWrong,
    DefinitionError,
    DefinitionErrors,
    JoinInvalid,
    NotYetSupported,
    OperatorInvalid,
)
from narthex.expr.nodes import Node
from narthex.node_schema import DatasetSchemaInfo, NodeSchema
from narthex.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Assignment,
    DatasetRef,
    Drop,
    DropNull,
    Filter,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
    Select,
)
from narthex.origin import Origin
from narthex.schema import Column
from narthex.schemas import output_schema, step_schema
from narthex.types import DataType, Optional
from narthex.windows import Window

Frame: TypeAlias = object
"""A pandas frame, in the author's hands."""


@attrs.define
class Trace:
    """What is known while a pipeline's function runs.

    Attributes:
        inputs: The datasets that it may read.
        errors: Everything that is wrong so far.
        incomplete: Whether a call could not be read and its step was left out: what later steps
            say of their input is then not told.
    """

    pipeline: str
    inputs: dict[str, DatasetSchemaInfo]
    errors: list[DefinitionError] = attrs.field(factory=list)
    incomplete: bool = False

    def leave_out(self, *errors: DefinitionError) -> None:
        """Keep the mistakes for which a step is left out."""
        self.errors += errors
        self.incomplete = True

    def found(self, errors: Sequence[DefinitionError]) -> None:
        """Keep what a step's schema says is wrong."""
        if not self.incomplete:
            self.errors += errors


class Rows:
    """The rows of a dataset, or what steps made of them."""

    def __init__(self, trace: Trace, operator: Operator, schema: NodeSchema) -> None:
        self._trace = trace
        self._operator = operator
        self._schema = schema

    @property
    def operator(self) -> Operator:
        """The last step so far."""
        return self._operator

    @property
    def node_schema(self) -> NodeSchema:
        """What the last step gives, with the mistakes on the way."""
        return self._schema

    def schema(self) -> dict[str, DataType]:
        """Give the columns here with their types."""
        return self._schema.columns

    def filter(self, predicate: object) -> "Rows":
        """Keep the rows for which an expression, or a function of a frame, is true."""
        origin = author_origin()

        def step() -> Operator:
            return Filter(self._operator, _predicate(predicate, origin), origin=origin)

        return self._add(step, origin)

    def assign(self, *args: object, **columns: object) -> "Rows":
        """Add or replace value columns.

        Either `assign("column", dtype, function)`, where the function takes a frame and gives a
        series, or `assign(column=expression.astype(dtype), …)`.
        """
        origin = author_origin()

        def step() -> Operator:
            if args and not columns and len(args) == 3:  # noqa: PLR2004 (name, type, function)
                return self._assign_code(*args, origin=origin)
            if columns and not args:
                return Assign(
                    self._operator,
                    tuple(_assignment(name, value, origin) for name, value in columns.items()),
                    origin=origin,
                )
            raise OperatorInvalid(
                "`assign` takes a name, a type and a function, or keywords with expressions",
                origin=origin,
                hint="write `assign(total=(col('a') + col('b')).astype(float))`",
            )

        return self._add(step, origin)

    def _assign_code(
        self, name: object, dtype: object, function: object, *, origin: Origin
    ) -> Operator:
        if not isinstance(name, str):
            raise OperatorInvalid(f"`assign` found `{name!r}` as a name", origin=origin)
        of = parse_annotation(dtype)
        code = resolve(function, what=f"the function of `assign` for `{name}`", origin=origin)
        return AssignCode(self._operator, Column(name, of), code, origin=origin)

    def select(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Keep the timestamp and the listed columns; all keys must be listed."""
        origin = author_origin()

        def step() -> Operator:
            names = read_columns(args, columns, operator="select", origin=origin)
            for key in self._schema.keys:
                if key.name not in names:
                    raise ColumnRoleWrong(
                        f"`select` leaves out the key `{key.name}`",
                        origin=origin,
                        hint=f"list `{key.name}` too",
                    )
            return Select(self._operator, names, origin=origin)

        return self._add(step, origin)

    def drop(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Leave out value columns."""
        origin = author_origin()
        return self._add(
            lambda: Drop(
                self._operator,
                read_columns(args, columns, operator="drop", origin=origin),
                origin=origin,
            ),
            origin,
        )

    def rename(self, columns: dict[str, str]) -> "Rows":
        """Rename columns, keys and timestamp too."""
        origin = author_origin()
        return self._add(
            lambda: Rename(self._operator, read_names(columns, origin=origin), origin=origin),
            origin,
        )

    def dropnull(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Leave out rows with a null in the listed columns, or in any optional one."""
        origin = author_origin()

        def step() -> Operator:
            named = bool(args) or columns is not None
            names = (
                read_columns(args, columns, operator="dropnull", origin=origin)
                if named
                else tuple(c.name for c in self._schema.values if isinstance(c.type, Optional))
            )
            return DropNull(self._operator, names, origin=origin)

        return self._add(step, origin)

    def join(  # noqa: PLR0913, PLR0917 (Fennel's signature)
        self,
        other: object,
        how: str,
        on: ColumnsArgument = None,
        left_on: ColumnsArgument = None,
        right_on: ColumnsArgument = None,
        within: tuple[str, str] = ("forever", "0s"),
        fields: Sequence[str] | None = None,
    ) -> "Rows":
        """Join each row with a keyed dataset's row as of the row's event time.

        A left join makes the right columns optional; an inner join drops rows without a match.
        """
        origin = author_origin()

        def step() -> Operator:
            right, info = self._right(other, origin)
            keys = tuple(column.name for column in info.schema.keys)
            low, high = read_within(within, origin=origin)
            return Join(
                self._operator,
                right,
                _how(how, origin),
                read_join_on(on, left_on, right_on, right_keys=keys, origin=origin),
                low,
                high,
                tuple(column.name for column in info.schema.values)
                if fields is None
                else read_columns((), fields, operator="join", origin=origin),
                origin=origin,
            )

        return self._add(step, origin)

    def _right(self, other: object, origin: Origin) -> tuple[DatasetRef, DatasetSchemaInfo]:
        ref = other.operator if isinstance(other, Rows) else None
        if ref is None:
            name = getattr(other, "__narthex_dataset_name__", None)
            ref = DatasetRef(name, origin=origin) if isinstance(name, str) else None
        if not isinstance(ref, DatasetRef):
            raise JoinInvalid(
                "a join is with a dataset, not with rows that were made inside the pipeline",
                origin=origin,
                hint="make a dataset of those rows and join with that",
            )
        info = self._trace.inputs.get(ref.dataset)
        if info is None:
            raise JoinInvalid(
                f"dataset `{ref.dataset}` is joined but is not an input of the pipeline",
                origin=origin,
                hint=f"add `{ref.dataset}` to `@inputs`",
            )
        return ref, info

    def groupby(self, *args: object, window: Window | None = None) -> "Groups":
        """Group rows by columns; `aggregate` or `latest` must follow."""
        origin = author_origin()
        if window is not None:
            self._refuse("`groupby` with a `window`", origin, "give each aggregate its window")
        by: tuple[str, ...] = ()
        try:
            by = read_columns(args, None, operator="groupby", origin=origin)
        except DefinitionError as error:
            self._trace.leave_out(error)
        return Groups(self, by, origin)

    def transform(self, *_: object, **__: object) -> "Rows":
        """Not supported yet."""
        return self._refuse("`transform`", author_origin(), "use `assign`, `drop` and `rename`")

    def dedup(self, *_: object, **__: object) -> "Rows":
        """Not supported yet."""
        return self._refuse("`dedup`", author_origin(), "use `groupby(…).latest()`")

    def explode(self, *_: object, **__: object) -> "Rows":
        """Not supported yet."""
        return self._refuse("`explode`", author_origin(), "send one row for each element")

    def changelog(self, *_: object, **__: object) -> "Rows":
        """Not supported yet."""
        return self._refuse("`changelog`", author_origin(), "read the keyless dataset instead")

    def __add__(self, other: object) -> "Rows":
        """Not supported yet: the union of two datasets."""
        return self._refuse("a union `a + b`", author_origin(), "give one dataset both sources")

    def _refuse(self, what: str, origin: Origin, hint: str) -> "Rows":
        self._trace.leave_out(
            NotYetSupported(f"{what} is not supported yet", origin=origin, hint=hint)
        )
        return self

    def _add(self, step: Callable[[], Operator], origin: Origin) -> "Rows":
        """Add a step; one that cannot be read is told later and left out."""
        try:
            operator = step()
        except DefinitionErrors as errors:
            self._trace.leave_out(*errors.exceptions_flat())
        except DefinitionError as error:
            self._trace.leave_out(error.located(origin))
        else:
            schema = step_schema(operator, self._schema, self._trace.inputs)
            self._trace.found(schema.errors[len(self._schema.errors) :])
            return Rows(self._trace, operator, schema)
        return self


class Groups:
    """Rows in groups; `aggregate` or `latest` makes them one value a group."""

    def __init__(self, rows: Rows, by: tuple[str, ...], origin: Origin) -> None:
        self._rows = rows
        self._by = by
        self._origin = origin

    def aggregate(
        self, *specs: object, along: str | None = None, emit: str = "eager", **named: object
    ) -> Rows:
        """Compute aggregates for each group; each has a name, by keyword or `into_field`."""
        origin = author_origin()

        def step() -> Operator:
            _check_mode(along, emit, origin)
            listed = specs[0] if len(specs) == 1 and isinstance(specs[0], list | tuple) else specs
            calls = [("", call) for call in _items(listed)] + [*named.items()]
            built = tuple(_spec(name, call, origin) for name, call in calls)
            return Aggregate(self._rows.operator, self._by, built, origin=origin)

        return self._rows._add(step, origin)  # noqa: SLF001 (the other half of one idea)

    def latest(self) -> Rows:
        """Keep, for each group, the whole row with the newest event time."""
        origin = author_origin()
        return self._rows._add(  # noqa: SLF001
            lambda: Latest(self._rows.operator, self._by, origin=origin), origin
        )

    def first(self) -> Rows:
        """Not supported yet."""
        return self._rows._refuse(  # noqa: SLF001
            "`first`", author_origin(), "use `latest`, or `Min` over what orders the rows"
        )


def read_dataset(trace: Trace, dataset: str, origin: Origin) -> Rows:
    """Give the rows of an input dataset."""
    ref = DatasetRef(dataset, origin=origin)
    schema = output_schema(ref, trace.inputs)
    trace.found(schema.errors)
    return Rows(trace, ref, schema)


def _items(listed: object) -> list[object]:
    return list(listed) if isinstance(listed, list | tuple) else [listed]


def _predicate(predicate: object, origin: Origin) -> Node | UserCode:
    node = node_of(predicate)
    if node is not None:
        return node
    if callable(predicate):
        return resolve(predicate, what="the function of `filter`", origin=origin)
    raise OperatorInvalid(
        f"`filter` found `{predicate!r}`; it wants an expression or a function", origin=origin
    )


def _assignment(name: str, value: object, origin: Origin) -> Assignment:
    node, of = node_of(value), type_of(value)
    if node is None:
        raise OperatorInvalid(
            f"`assign` of `{name}` found `{value!r}`; it wants an expression", origin=origin
        )
    if of is None:
        raise OperatorInvalid(
            f"`assign` of `{name}` does not say its type",
            origin=origin,
            hint=f"write `{name}=(…).astype(…)`",
        )
    return Assignment(name, of, node)


def _how(how: object, origin: Origin) -> JoinHow:
    for known in JoinHow:
        if known.value == how:
            return known
    raise JoinInvalid(f"`how` found `{how!r}`; it wants `left` or `inner`", origin=origin)


def _check_mode(along: str | None, emit: str, origin: Origin) -> None:
    if emit not in {"eager", "final"}:
        raise AggregateInvalid(f"`emit` found `{emit}`; it wants `eager` or `final`", origin=origin)
    if emit == "final":
        raise NotYetSupported('`emit="final"` is not supported yet', origin=origin)
    if along is not None:
        raise NotYetSupported("`along` is not supported yet", origin=origin)


def _spec(name: str, call: object, origin: Origin) -> AggregateSpec:
    if not isinstance(call, AggregateCall):
        raise AggregateInvalid(
            f"`aggregate` found `{call!r}`; it wants Count, Sum, Average, Min, Max, Stddev "
            "or LastK",
            origin=origin,
        )
    into = name or call.into_field
    if not into:
        raise AggregateInvalid(
            f"a `{type(call).__name__}` has no name",
            origin=origin,
            hint="write `aggregate(total=Sum(…))`, or give `into_field`",
        )
    return call.build(into)
