"""Read the arguments of pipeline steps into the values of the operators."""

from collections.abc import Mapping, Sequence

from narthex._base.origin import Origin
from narthex._base.times import DurationError
from narthex._ir.aggregate_specs import AggregateSpec, ExpDecaySum
from narthex._ir.code import UserCode
from narthex._ir.expression_nodes import Node
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Assignment, Change, Emit, JoinHow
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType
from narthex._ir.windows import Hopping, Session, Tumbling, Window
from narthex._sdk.annotations import parse_columns
from narthex._sdk.closure import resolve
from narthex._sdk.datasets.aggregates import Aggregate as AggregateCall
from narthex._sdk.datasets.aggregates import Max, Min
from narthex._sdk.declare.expressions import node_of, type_of
from narthex._sdk.declare.literals import MisfitError
from narthex.errors import (
    AggregateInvalid,
    ColumnRoleWrong,
    DefinitionError,
    DurationInvalid,
    JoinInvalid,
    OperatorInvalid,
    WindowInvalid,
    raise_all,
)

_WINDOWS = "`Continuous`, `Tumbling` or `Hopping`"


def read_predicate(predicate: object, origin: Origin) -> Node | UserCode:
    """Read the predicate of `filter`."""
    node = node_of(predicate)
    if node is not None:
        return node
    if callable(predicate):
        return resolve(predicate, what="the function of `filter`", origin=origin)
    raise OperatorInvalid(
        f"`filter` got `{predicate!r}`; expected an expression or a function", origin=origin
    )


def read_assignments(columns: Mapping[str, object], origin: Origin) -> tuple[Assignment, ...]:
    """Read the keywords of `assign`.

    Raises:
        DefinitionErrors: All errors in any of them.
    """
    assignments: list[Assignment] = []
    errors: list[DefinitionError] = []
    for name, value in columns.items():
        try:
            assignments.append(_assignment(name, value, origin))
        except DefinitionError as error:
            errors.append(error)
    raise_all(errors)
    return tuple(assignments)


def _assignment(name: str, value: object, origin: Origin) -> Assignment:
    node, of = node_of(value), type_of(value)
    if node is None:
        raise OperatorInvalid(
            f"`assign` of `{name}` got `{value!r}`; expected an expression", origin=origin
        )
    if of is None:
        raise OperatorInvalid(
            f"`assign` of `{name}` has no type",
            origin=origin,
            hint=f"write `{name}=(…).astype(…)`",
        )
    return Assignment(name, of, node)


def read_how(how: object, origin: Origin) -> JoinHow:
    """Read how a join treats a left row without a match."""
    for known in JoinHow:
        if known.value == how:
            return known
    raise JoinInvalid(f"`how` got `{how!r}`; expected `left` or `inner`", origin=origin)


def read_transformed(schema: object, before: NodeSchema, origin: Origin) -> tuple[Column, ...]:
    """Read the declared value columns of a `transform` function; None keeps the columns.

    Raises:
        DefinitionErrors: A type is invalid, or keys or event time differ from before.
    """
    if schema is None:
        return before.values
    if not isinstance(schema, Mapping) or not all(isinstance(name, str) for name in schema):
        raise OperatorInvalid(
            f"`schema` of `transform` got `{schema!r}`; expected a dict from columns to types",
            origin=origin,
        )
    found, wrong = parse_columns(schema)
    errors = [error.located(origin, subject=f"column `{name}`") for name, error in wrong]
    broken = {name for name, _ in wrong}
    columns = before.columns
    fixed = [*(key.name for key in before.keys), before.timestamp]
    for name in fixed:
        role = "event time" if name == before.timestamp else "key"
        if name in broken:
            continue
        if name not in found:
            errors.append(
                ColumnRoleWrong(
                    f"`schema` of `transform` leaves out the {role} `{name}`",
                    origin=origin,
                    hint=f"list `{name}` too",
                )
            )
        elif found[name] != columns[name]:
            errors.append(
                ColumnRoleWrong(
                    f"`transform` gives the {role} `{name}` as `{type_name(found[name])}`; it is "
                    f"`{type_name(columns[name])}`",
                    origin=origin,
                )
            )
    raise_all(errors)
    return tuple(Column(name, of) for name, of in found.items() if name not in fixed)


def read_dedup_window(window: object, origin: Origin) -> Tumbling | Session | None:
    """Read the window within which equal rows are duplicates."""
    if window is None or isinstance(window, Tumbling | Session):
        return window
    raise WindowInvalid(
        f"`dedup` got the window `{window!r}`; expected `Tumbling` or `Session`",
        origin=origin,
        hint=_window_of(window, "Tumbling"),
    )


def _window_of(given: object, kind: str) -> str:
    """Return how a window of a duration is written; empty for anything but a duration."""
    return f'write `{kind}("{given}")`' if isinstance(given, str) else ""


def read_change(insert: object, delete: object, origin: Origin) -> tuple[str, Change]:
    """Read the column of `changelog` and the kind of change that it marks."""
    match insert, delete:
        case str(column), None:
            return column, Change.INSERT
        case None, str(column):
            return column, Change.DELETE
        case _:
            raise OperatorInvalid(
                "`changelog` needs the name of one column, as `insert` or as `delete`",
                origin=origin,
                hint='write `changelog(delete="gone")`',
            )


def default_emit(
    window: Hopping | Tumbling | Session | None, specs: Sequence[AggregateSpec]
) -> Emit:
    """Return when values are emitted by default: those of a `groupby` by span when it has ended.

    The spans of sessions are known only from their rows, and a decaying sum is never final: these
    are emitted at once.
    """
    decays = any(isinstance(spec, ExpDecaySum) for spec in specs)
    is_final = isinstance(window, Hopping | Tumbling) and not decays
    return Emit.FINAL if is_final else Emit.EAGER


def read_emit(emit: object, default: Emit, origin: Origin) -> Emit:
    """Read when the values of a group are emitted; None is the default."""
    if emit is None:
        return default
    for known in Emit:
        if known.value == emit:
            return known
    raise AggregateInvalid(f"`emit` got `{emit!r}`; expected `eager` or `final`", origin=origin)


def read_along(along: object, origin: Origin) -> str | None:
    """Read the column that is the time axis."""
    if along is None or isinstance(along, str):
        return along
    raise AggregateInvalid(f"`along` got `{along!r}`; expected the name of a column", origin=origin)


def read_group_window(window: object, origin: Origin) -> Hopping | Tumbling | Session | None:
    """Read the window that splits groups."""
    if window is None or isinstance(window, Hopping | Tumbling | Session):
        return window
    raise WindowInvalid(
        f"`groupby` got the window `{window!r}`; expected `Tumbling`, `Hopping` or `Session`",
        origin=origin,
        hint=_window_of(window, "Tumbling"),
    )


def read_specs(
    calls: list[tuple[str, object]],
    window: Hopping | Tumbling | Session | None,
    columns: Mapping[str, DataType],
    origin: Origin,
) -> tuple[tuple[AggregateSpec, ...], tuple[DefinitionError, ...]]:
    """Read the aggregates of a group over columns, each with its name by keyword.

    Return the valid ones and the errors of the others.
    """
    specs: list[AggregateSpec] = []
    errors: list[DefinitionError] = []
    for name, call in calls:
        try:
            specs.append(_spec(name, call, window, columns, origin))
        except DefinitionError as error:
            errors.append(error)
        except DurationError as error:
            errors.append(DurationInvalid(f"`{name}`: {error}", origin=origin))
    return tuple(specs), tuple(errors)


def _spec(
    name: str,
    call: object,
    window: Hopping | Tumbling | Session | None,
    columns: Mapping[str, DataType],
    origin: Origin,
) -> AggregateSpec:
    if not isinstance(call, AggregateCall):
        raise AggregateInvalid(
            f"`aggregate` got `{call!r}`; expected aggregates such as `Count` or `Sum`",
            origin=origin,
        )
    into = name or call.into_field
    kind = type(call).__name__
    if not into:
        raise AggregateInvalid(
            f"a `{kind}` has no name",
            origin=origin,
            hint="write `aggregate(total=Sum(…))`, or give `into_field`",
        )
    chosen = call.window if call.window is not None else window
    if chosen is None:
        raise AggregateInvalid(
            f"the `{kind}` `{into}` has no window",
            origin=origin,
            hint='give it one, such as `window=Continuous("1d")`',
        )
    if not isinstance(chosen, Window):
        raise WindowInvalid(
            f"the `{kind}` `{into}` got the window `{chosen!r}`; expected {_WINDOWS}",
            origin=origin,
            hint=_window_of(chosen, "Continuous"),
        )
    of = None if call.of is None else columns.get(call.of)
    if of is None or not isinstance(call, Min | Max):
        return call.build(into, chosen)
    try:
        return call.build_of(into, chosen, of)
    except MisfitError as error:
        raise AggregateInvalid(f"`{into}`: {error}", origin=origin) from None
