"""Sources: where rows of a dataset enter, and what is done to them on the way."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar

import attrs

from narthex.annotations import name_of, parse_annotation
from narthex.declare.collecting import report
from narthex.declare.connections import S3, Files, Kafka, Webhook
from narthex.declare.datasets import Dataset, declared
from narthex.declare.env import Env, parse_env
from narthex.declare.expressions import node_of, type_of
from narthex.declare.literals import MisfitError, literal_of
from narthex.declare.operator_calls import read_duration
from narthex.declare.places import author_origin
from narthex.entities import (
    Cdc,
    ColumnRef,
    Computed,
    Connector,
    Constant,
    Preproc,
    Source,
    Where,
)
from narthex.errors import (
    ConnectorInvalid,
    DefinitionError,
    DefinitionErrors,
    ExpressionTypeWrong,
    NotYetSupported,
    PreprocInvalid,
    SourceInvalid,
)
from narthex.expr.nodes import Node
from narthex.expr.typing import references
from narthex.expression_types import misfit
from narthex.node_schema import did_you_mean, listed
from narthex.origin import Origin
from narthex.schema import Column, Role, Schema
from narthex.times import to_micros
from narthex.types import Bool, DataType, Optional

_T = TypeVar("_T")


@attrs.frozen
class Ref:
    """A raw column by name."""

    column: str


@attrs.frozen(eq=False)
class Eval:
    """An expression of raw columns, whose types are the dataset's unless `schema` says more."""

    expression: object
    schema: dict[str, object]


def ref(ref_name: str) -> Ref:
    """Take a field from the raw column of another name."""
    return Ref(ref_name)


def eval(  # noqa: A001 (Fennel's name)
    expression: object, schema: Mapping[str, object] | None = None
) -> Eval:
    """Compute a field, or a condition, from raw columns.

    Args:
        expression: What `col`, `lit` and `when` build.
        schema: Types of raw columns that are not fields of the dataset.
    """
    return Eval(expression, dict(schema or {}))


@attrs.frozen(kw_only=True)
class _Call:
    """The arguments of `@source` as they were written."""

    conn: object
    disorder: object
    cdc: object
    every: object
    since: object
    until: object
    bounded: object
    idleness: object
    preproc: Mapping[str, object]
    where: object
    env: Env
    sample: object
    origin: Origin


def source(  # noqa: PLR0913, PLR0917 (Fennel's signature)
    conn: object,
    disorder: str,
    cdc: str,
    every: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    env: Env = None,
    preproc: Mapping[str, object] | None = None,
    bounded: bool = False,
    idleness: str | None = None,
    where: object = None,
    sample: object = None,
) -> Callable[[Dataset], Dataset]:
    """Say where rows of a dataset come from; it stands above `@dataset`, as often as wanted.

    Args:
        conn: An endpoint, a topic or files, such as `Webhook("w").endpoint("orders")`.
        disorder: How late a row is expected to be at most; it never changes a result.
        cdc: `append` for keyless datasets, `upsert` for keyed ones.
        every: How often to look for new files.
        since: Rows of earlier instants are left out.
        until: Rows from this instant on are left out.
        env: The envs for which the source is taken.
        preproc: Fields that are constants, raw columns of other names, or expressions.
        bounded: The source ends; `idleness` says after how long without rows.
        idleness: See `bounded`.
        where: Rows for which this expression is false or null are left out.
        sample: Not supported yet.

    Raises:
        DefinitionErrors: Everything that is wrong with the call, together.
    """
    call = _Call(
        conn=conn,
        disorder=disorder,
        cdc=cdc,
        every=every,
        since=since,
        until=until,
        bounded=bounded,
        idleness=idleness,
        preproc=preproc or {},
        where=where,
        env=env,
        sample=sample,
        origin=author_origin(),
    )

    def add(to: Dataset) -> Dataset:
        if not isinstance(to, Dataset):
            raise SourceInvalid("`@source` stands above `@dataset`", origin=call.origin)
        known = declared(to)
        built, errors = _build(call, known.name, None if known.broken else known.schema)
        if built is not None:
            known.sources = (built, *known.sources)
        report(errors)
        return to

    return add


class _Reader:
    """Reads arguments one by one and keeps what is wrong with each."""

    def __init__(self) -> None:
        self.errors: list[DefinitionError] = []

    def read(self, part: Callable[[], _T]) -> _T | None:
        """Give what `part` reads; None, and one more mistake, if it cannot."""
        try:
            return part()
        except DefinitionErrors as errors:
            self.errors += errors.exceptions_flat()
        except DefinitionError as error:
            self.errors.append(error)
        return None


def _build(
    call: _Call, dataset: str, schema: Schema | None
) -> tuple[Source | None, tuple[DefinitionError, ...]]:
    reader = _Reader()
    connector = reader.read(lambda: _connector(call.conn, call.origin))
    disorder = reader.read(
        lambda: read_duration(call.disorder, origin=call.origin, what="`disorder`")
    )
    cdc = reader.read(lambda: _cdc(call.cdc, call.origin))
    since = reader.read(lambda: _instant(call.since, "since", call.origin))
    until = reader.read(lambda: _instant(call.until, "until", call.origin))
    every = reader.read(lambda: _optional_duration(call.every, "`every`", call.origin))
    idleness = reader.read(lambda: _optional_duration(call.idleness, "`idleness`", call.origin))
    env = reader.read(lambda: parse_env(call.env, origin=call.origin))
    reader.errors += _contradictions(call, since, until)
    preproc: list[tuple[str, Preproc]] = []
    where: Where | None = None
    if schema is not None:
        for field, value in call.preproc.items():
            made = reader.read(partial(_preproc, field, value, dataset, schema, call.origin))
            if made is not None:
                preproc.append((field, made))
        where = reader.read(lambda: _where(call.where, schema, call.origin))
    if connector is None or disorder is None or cdc is None:
        return None, tuple(reader.errors)
    built = Source(
        connector=connector,
        disorder_us=disorder,
        cdc=cdc,
        every_us=every,
        since_us=since,
        until_us=until,
        bounded=bool(call.bounded),
        idleness_us=idleness,
        preproc=tuple(preproc),
        where=where,
        env=env or (),
        origin=call.origin,
    )
    return built, tuple(reader.errors)


def _connector(conn: object, origin: Origin) -> Connector:
    if isinstance(conn, Connector):
        return conn
    missing = {Webhook: "endpoint", Kafka: "topic", Files: "path", S3: "bucket"}.get(type(conn))
    if missing is not None:
        raise ConnectorInvalid(
            f"`{type(conn).__name__}` does not say which `{missing}`",
            origin=origin,
            hint=f"write `{type(conn).__name__}(…).{missing}(…)`",
        )
    raise ConnectorInvalid(f"`@source` found `{conn!r}`; it wants a connector", origin=origin)


def _cdc(cdc: object, origin: Origin) -> Cdc:
    for known in Cdc:
        if known.value == cdc:
            return known
    if cdc in {"debezium", "native"}:
        raise NotYetSupported(f"cdc `{cdc}` is not supported yet", origin=origin)
    raise SourceInvalid(f"`cdc` found `{cdc!r}`; it wants `append` or `upsert`", origin=origin)


def _instant(instant: object, what: str, origin: Origin) -> int | None:
    if instant is None:
        return None
    if not isinstance(instant, datetime):
        raise SourceInvalid(
            f"`{what}` is of type `{name_of(type(instant))}`; it wants a datetime", origin=origin
        )
    return int(to_micros(instant))


def _optional_duration(duration: object, what: str, origin: Origin) -> int | None:
    return None if duration is None else read_duration(duration, origin=origin, what=what)


def _contradictions(call: _Call, since: int | None, until: int | None) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    if since is not None and until is not None and since >= until:
        errors.append(
            SourceInvalid(
                f"`since` ({call.since}) is not before `until` ({call.until})", origin=call.origin
            )
        )
    if call.bounded and call.idleness is None:
        errors.append(
            SourceInvalid(
                "a bounded source does not say after how long without rows it ends",
                origin=call.origin,
                hint='give `idleness`, such as `idleness="1h"`',
            )
        )
    if call.idleness is not None and not call.bounded:
        errors.append(SourceInvalid("`idleness` goes with `bounded=True`", origin=call.origin))
    if call.sample is not None:
        errors.append(NotYetSupported("`sample` is not supported yet", origin=call.origin))
    return errors


def _preproc(field: str, value: object, dataset: str, schema: Schema, origin: Origin) -> Preproc:
    if field not in schema.columns:
        raise PreprocInvalid(
            f"`preproc` gives `{field}`, which is not a field of `{dataset}`; it has "
            f"{listed(schema.columns)}",
            origin=origin,
            hint=did_you_mean(field, schema.columns),
        )
    of = schema.columns[field]
    match value:
        case Ref():
            return _reference(value, origin)
        case Eval():
            if field == schema.timestamp:
                raise PreprocInvalid(
                    f"the timestamp `{field}` cannot be computed by `eval`",
                    origin=origin,
                    hint="use `ref(…)` or a constant",
                )
            node = _expression(value, of, schema, f"`preproc` of `{field}`", origin)
            return Computed(expression=node, schema=_used(node, value, schema, origin))
        case _:
            return _constant(field, value, of, origin)


def _reference(value: Ref, origin: Origin) -> ColumnRef:
    if not value.column:
        raise PreprocInvalid("`ref` has no column", origin=origin)
    if "[" in value.column:
        raise NotYetSupported(
            f"`ref({value.column!r})` into nested values is not supported yet", origin=origin
        )
    return ColumnRef(value.column)


def _constant(field: str, value: object, of: DataType, origin: Origin) -> Constant:
    try:
        return Constant(literal_of(value, of))
    except MisfitError as error:
        raise PreprocInvalid(
            f"the constant of `preproc` for `{field}` does not fit: {error}", origin=origin
        ) from None


def _raw_columns(value: Eval, schema: Schema, origin: Origin) -> tuple[Column, ...]:
    columns: dict[str, DataType] = {
        field.name: field.type for field in schema.fields if field.role is not Role.TIMESTAMP
    }
    columns[schema.timestamp] = schema.columns[schema.timestamp]
    for name, annotation in value.schema.items():
        try:
            columns[name] = parse_annotation(annotation)
        except DefinitionError as error:
            raise error.located(origin, subject=f"raw column `{name}`") from None
    return tuple(Column(name, of) for name, of in columns.items())


def _used(node: Node, value: Eval, schema: Schema, origin: Origin) -> tuple[Column, ...]:
    """Give the raw columns that an expression reads: only they must be right for it."""
    read = references(node)
    return tuple(c for c in _raw_columns(value, schema, origin) if c.name in read)


def _expression(value: Eval, of: DataType, schema: Schema, what: str, origin: Origin) -> Node:
    node = node_of(value.expression)
    if node is None:
        raise _no_expression(value.expression, what, origin)
    columns = {column.name: column.type for column in _raw_columns(value, schema, origin)}
    wrong = misfit(node, columns, type_of(value.expression) or of)
    wrong = wrong or misfit(node, columns, of)
    if wrong is not None:
        raise ExpressionTypeWrong(f"{what} cannot stand: {wrong}", origin=origin)
    return node


def _no_expression(found: object, what: str, origin: Origin) -> DefinitionError:
    if inspect.isfunction(found):
        return NotYetSupported(
            f"a Python function in {what} is not supported yet",
            origin=origin,
            hint="write it as an expression, `eval(col(…) …)`",
        )
    return PreprocInvalid(f"{what} found `{found!r}`; it wants an expression", origin=origin)


def _where(where: object, schema: Schema, origin: Origin) -> Where | None:
    if where is None:
        return None
    call = where if isinstance(where, Eval) else Eval(where, {})
    node = _expression(call, Optional(Bool()), schema, "`where`", origin)
    return Where(expression=node, schema=_used(node, call, schema, origin))
