"""The symbolic rows that a pipeline's function receives; each method adds a step."""

from collections.abc import Callable, Sequence
from typing import Final

from narthex._analysis.schemas.pipelines import output_schema, schema_of_union, step_schema
from narthex._authoring.source_locations import author_origin
from narthex._base.origin import Origin
from narthex._ir.code import UserCode
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Changelog,
    DatasetRef,
    Dedup,
    Drop,
    DropNull,
    Emit,
    Explode,
    Filter,
    First,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
    Select,
    Transform,
    Union,
)
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Optional
from narthex._ir.windows import Hopping, Session, Tumbling
from narthex._sdk.annotations import parse_annotation
from narthex._sdk.closure import resolve
from narthex._sdk.datasets.pipeline_trace import Trace
from narthex._sdk.datasets.step_calls import (
    default_emit,
    read_along,
    read_assignments,
    read_change,
    read_dedup_window,
    read_emit,
    read_group_window,
    read_how,
    read_predicate,
    read_specs,
    read_transformed,
)
from narthex._sdk.declare.call_arguments import (
    ColumnsArgument,
    read_columns,
    read_join_on,
    read_names,
    read_within,
)
from narthex.errors import (
    ColumnRoleWrong,
    JoinInvalid,
    OperatorInvalid,
)

_ANY_WINDOW: Final = Tumbling("1d")
"""Replaces an unreadable window, so that aggregates without a window cause no second error."""

_UNREAD: Final = UserCode(entry="", source="", python="")
"""Replaces unreadable code, so that the steps after it can still be checked."""


class Rows:
    """The rows of a dataset, or the result of steps on them."""

    def __init__(
        self, trace: Trace, operator: Operator, schema: NodeSchema, *, known: bool = True
    ) -> None:
        self._trace = trace
        self._operator = operator
        self._schema = schema
        # After an unreadable step the columns are unknown, so no more errors are reported.
        self._known = known

    @property
    def operator(self) -> Operator:
        """The last step so far."""
        return self._operator

    @property
    def node_schema(self) -> NodeSchema:
        """The output schema of the last step, with the errors of all steps."""
        return self._schema

    @property
    def is_known(self) -> bool:
        """Whether all steps so far could be read."""
        return self._known

    def schema(self) -> dict[str, DataType]:
        """Return the columns at this step with their types."""
        return self._schema.columns

    def filter(self, predicate: object) -> "Rows":
        """Keep the rows for which a condition is true.

        A key whose newest row fails is absent from that instant on.

        Args:
            predicate: An expression of type `bool`, or a function that takes a frame and returns a
                series of bools. For an expression that may be null, specify the meaning of null:
                `.fillnull(False)`.
        """
        origin = author_origin()

        found = self._trace.read(lambda: read_predicate(predicate, origin), origin, instead=_UNREAD)
        return self._add(lambda: Filter(self._operator, found, origin=origin), origin)

    def assign(self, *args: object, **columns: object) -> "Rows":
        """Add or replace value columns.

        Either `assign("column", dtype, function)`, where the function takes a frame and returns a
        series, or `assign(column=expression.astype(dtype), …)`.
        """
        origin = author_origin()

        if args and not columns and len(args) == 3:  # noqa: PLR2004 (name, type, function)
            return self._assign_code(*args, origin=origin)

        def step() -> Operator:
            if not columns or args:
                raise OperatorInvalid(
                    "`assign` takes a name, a type and a function, or keywords with expressions",
                    origin=origin,
                    hint="write `assign(total=(col('a') + col('b')).astype(float))`",
                )
            return Assign(self._operator, read_assignments(columns, origin), origin=origin)

        return self._add(step, origin)

    def _assign_code(
        self, name: object, dtype: object, function: object, *, origin: Origin
    ) -> "Rows":
        def column() -> Column:
            if not isinstance(name, str):
                raise OperatorInvalid(f"`assign` got `{name!r}` as a name", origin=origin)
            return Column(name, parse_annotation(dtype))

        def step() -> Operator:
            made = column()
            code = self._code(function, f"the function of `assign` for `{name}`", origin)
            return AssignCode(self._operator, made, code, origin=origin)

        return self._add(step, origin)

    def select(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Keep the timestamp and the listed columns; all keys must be listed.

        Args:
            args: The columns by name, or one list of them.
            columns: The same, by keyword.
        """
        origin = author_origin()

        def step() -> Operator:
            names = read_columns(args, columns, operator="select", origin=origin)
            if self._known:
                self._trace.found(
                    ColumnRoleWrong(
                        f"`select` leaves out the key `{key.name}`",
                        origin=origin,
                        hint=f"list `{key.name}` too",
                    )
                    for key in self._schema.keys
                    if key.name not in names
                )
            return Select(self._operator, names, origin=origin)

        return self._add(step, origin)

    def drop(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Leave out value columns; keys and the timestamp must stay.

        Args:
            args: The columns by name, or one list of them.
            columns: The same, by keyword.
        """
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
        """Rename columns, including keys and the timestamp.

        Args:
            columns: The new name of each old one.
        """
        origin = author_origin()
        return self._add(
            lambda: Rename(self._operator, read_names(columns, origin=origin), origin=origin),
            origin,
        )

    def dropnull(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Leave out rows with a null in the listed columns, which are not `Optional` any more.

        Args:
            args: Optional columns by name, or one list of them; by default, all of them.
            columns: The same, by keyword.
        """
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

        The newest right row at or before that instant is used, but not a deleted one. When a right
        row is late or corrected, the joined rows are corrected. A keyed row stays joined while it
        is valid: each later right row makes a new row, with the right row's event time.

        Args:
            other: Another input of the pipeline, a keyed dataset.
            how: `left` keeps rows without a match, with nulls, so that the right columns become
                `Optional`; `inner` drops them.
            on: The right keys, if the left columns have the same names.
            left_on: The left columns, in the order of `right_on`.
            right_on: The right keys.
            within: How long before and after the row's event time the right row may be, both ends
                included. With an end above `0s`, a row sees events after it. For a keyed row, it
                bounds the right row at the row's own event time, not those that come later.
            fields: The right columns to take; by default, all.
        """
        origin = author_origin()

        def step() -> Operator:
            right, info = self._right(other, origin)
            keys = tuple(column.name for column in info.schema.keys)
            low, high = self._trace.read(
                lambda: read_within(within, origin=origin), origin, instead=(None, 0)
            )
            return Join(
                self._operator,
                right,
                self._trace.read(lambda: read_how(how, origin), origin, instead=JoinHow.LEFT),
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

    def groupby(self, *args: object, window: object = None) -> "Groups":
        """Group rows by columns; `aggregate`, `first` or `latest` must follow.

        With a window, the rows of a group are split into its spans, and the key column `window`
        contains the span; only `aggregate` can follow.

        Args:
            args: The columns by name, or one list of them; floats and `Optional` are not allowed.
            window: A `Tumbling`, `Hopping` or `Session` window.
        """
        origin = author_origin()
        by = self._trace.read(
            lambda: read_columns(args, None, operator="groupby", origin=origin),
            origin,
            instead=None,
        )
        span = self._trace.read(
            lambda: read_group_window(window, origin), origin, instead=_ANY_WINDOW
        )
        rows = self._unknown() if by is None or span is _ANY_WINDOW else self
        return Groups(self._trace, rows, by or (), span)

    def transform(self, func: object, schema: object = None) -> "Rows":
        """Compute the value columns with a function of a frame, which keeps the number of rows.

        Args:
            func: Takes a frame with all columns and returns one; keys and event time stay.
            schema: The types of all columns afterwards, including keys and event time; by default,
                they do not change.
        """
        origin = author_origin()

        def step() -> Operator:
            columns = read_transformed(schema, self._schema, origin)
            code = self._code(func, "the function of `transform`", origin)
            return Transform(self._operator, columns, code, origin=origin)

        return self._add(step, origin)

    def dedup(self, *args: object, by: ColumnsArgument = None, window: object = None) -> "Rows":
        """Keep the last of the rows that are equal in the columns.

        Rows are equal only at the same instant or, with a window, within one span of it.

        Args:
            args: The columns by name, or one list of them; without any, all values.
            by: The same, by keyword.
            window: A `Tumbling` or `Session` window.
        """
        origin = author_origin()
        span = self._trace.read(lambda: read_dedup_window(window, origin), origin, instead=None)

        def step() -> Operator:
            named = bool(args) or by is not None
            names = (
                read_columns(args, by, operator="dedup", origin=origin)
                if named
                else tuple(column.name for column in self._schema.values)
            )
            return Dedup(self._operator, names, span, origin=origin)

        return self._add(step, origin)

    def explode(self, *args: object, columns: ColumnsArgument = None) -> "Rows":
        """Make a row for each element of lists; an empty list makes one row with null.

        Lists that are named together are exploded side by side and must have equal lengths. The
        columns become `Optional`.

        Args:
            args: Columns of lists by name, or one list of them.
            columns: The same, by keyword.
        """
        origin = author_origin()
        return self._add(
            lambda: Explode(
                self._operator,
                read_columns(args, columns, operator="explode", origin=origin),
                origin=origin,
            ),
            origin,
        )

    def changelog(self, insert: str | None = None, delete: str | None = None) -> "Rows":
        """Make a keyless row for each insert and each delete of a keyed dataset.

        An update is a delete and an insert.

        Args:
            insert: The name of a new column that is true for inserts and false for deletes.
            delete: The name of a new column that is true for deletes; set only one of the two.
        """
        origin = author_origin()

        def step() -> Operator:
            column, change = read_change(insert, delete, origin)
            return Changelog(self._operator, column, change, origin=origin)

        return self._add(step, origin)

    def __add__(self, other: object) -> "Rows":
        """Return the rows of both inputs, which must have one schema, with duplicates."""
        origin = author_origin()

        if not isinstance(other, Rows):
            wrong = OperatorInvalid(
                f"a union `a + b` got `{other!r}`; expected rows on both sides", origin=origin
            )
            self._trace.found([wrong])
            return self
        step = Union(self._operator, other.operator, origin=origin)
        schema = schema_of_union(step, self._schema, other.node_schema)
        known = self._known and other.is_known
        if known:
            self._trace.found(schema.errors)
        return Rows(self._trace, step, schema, known=known)

    def _unknown(self) -> "Rows":
        return Rows(self._trace, self._operator, self._schema, known=False)

    def _code(self, function: object, what: str, origin: Origin) -> UserCode:
        return self._trace.read(
            lambda: resolve(function, what=what, origin=origin), origin, instead=_UNREAD
        )

    def _add(self, step: Callable[[], Operator], origin: Origin) -> "Rows":
        """Add a step; an unreadable one is left out, and the columns are unknown from then on."""
        trace = self._trace
        operator = trace.read(step, origin, instead=None)
        if operator is None:
            return self._unknown()
        schema = step_schema(operator, self._schema, trace.inputs)
        if self._known:
            trace.found(schema.errors[len(self._schema.errors) :])
        return Rows(trace, operator, schema, known=self._known)


class Groups:
    """Rows in groups; `aggregate`, `first` or `latest` reduces each group to one row."""

    def __init__(
        self,
        trace: Trace,
        rows: Rows,
        by: tuple[str, ...],
        window: Hopping | Tumbling | Session | None,
    ) -> None:
        self._trace = trace
        self._rows = rows
        self._by = by
        self._window = window

    def aggregate(
        self, *specs: object, along: object = None, emit: object = None, **named: object
    ) -> Rows:
        """Compute aggregates for each group, each named by keyword or `into_field`.

        Args:
            specs: Aggregates with `into_field`, or one list of them.
            along: A datetime column as the time axis instead of the event time.
            emit: `eager`: a result is visible at once and is corrected later. `final`: it is
                visible when its window has closed. By default, the spans of a tumbling or hopping
                window of `groupby` are final, and everything else is eager.
            named: Aggregates by the name of their column.
        """
        origin = author_origin()
        rows, trace = self._rows, self._trace
        listed = specs[0] if len(specs) == 1 and isinstance(specs[0], list | tuple) else specs
        calls = [("", call) for call in _items(listed)] + [*named.items()]
        found, wrong = read_specs(calls, self._window, rows.schema(), origin)
        trace.found(wrong)
        if wrong and not found:
            return rows._unknown()  # noqa: SLF001 (the other half of one idea)
        default = Emit.EAGER if along is not None else default_emit(self._window, found)
        step = Aggregate(
            rows.operator,
            self._by,
            found,
            along=trace.read(lambda: read_along(along, origin), origin, instead=None),
            emit=trace.read(lambda: read_emit(emit, default, origin), origin, instead=default),
            window=self._window,
            origin=origin,
        )
        done = rows._add(lambda: step, origin)  # noqa: SLF001
        return done._unknown() if wrong else done  # noqa: SLF001

    def latest(self) -> Rows:
        """Keep, for each group, the whole row with the newest event time."""
        return self._whole_row(Latest, author_origin())

    def first(self) -> Rows:
        """Keep, for each group, the whole row with the oldest event time."""
        return self._whole_row(First, author_origin())

    def _whole_row(self, kind: type[First | Latest], origin: Origin) -> Rows:
        def step() -> Operator:
            if self._window is not None:
                raise OperatorInvalid(
                    f"`{kind.__name__.lower()}` follows a `groupby` with a window; only "
                    "`aggregate` can",
                    origin=origin,
                    hint="leave the window out, or aggregate",
                )
            return kind(self._rows.operator, self._by, origin=origin)

        return self._rows._add(step, origin)  # noqa: SLF001


def read_dataset(trace: Trace, dataset: str, origin: Origin) -> Rows:
    """Return the rows of an input dataset."""
    ref = DatasetRef(dataset, origin=origin)
    schema = output_schema(ref, trace.inputs)
    trace.found(schema.errors)
    return Rows(trace, ref, schema)


def _items(listed: object) -> list[object]:
    return list(listed) if isinstance(listed, list | tuple) else [listed]
