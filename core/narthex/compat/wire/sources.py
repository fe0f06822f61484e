"""Sources and sinks from the messages of Fennel's client."""

from collections.abc import Mapping
from typing import Final

import attrs

from narthex._base.origin import Origin
from narthex._connectors.registry import is_polled
from narthex._ir.entities import (
    Cdc,
    Computed,
    ComputedByCode,
    Constant,
    Preproc,
    Sample,
    Sink,
    Snapshots,
    Source,
    Where,
    WhereByCode,
)
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.schema import Schema
from narthex._ir.types import DataType, Datetime, inner
from narthex._sdk.connectors.preprocs import frame_columns, read_reference, used_columns
from narthex.compat.wire.code import CodeScope, OwnCode, user_code
from narthex.compat.wire.connector_messages import (
    EvalMessage,
    PreprocMessage,
    SinkMessage,
    SourceMessage,
    StyleMessage,
)
from narthex.compat.wire.connectors import Connectors
from narthex.compat.wire.expressions import expression_of
from narthex.compat.wire.fields import choice_of
from narthex.compat.wire.schema_messages import (
    DurationMessage,
    InstantMessage,
    SchemaMessage,
    ValueMessage,
)
from narthex.compat.wire.types import data_type, literal_of_value
from narthex.errors import PreprocInvalid, SourceInvalid

_CDC: Final = (Cdc.APPEND, Cdc.UPSERT, Cdc.DEBEZIUM, Cdc.NATIVE)


@attrs.frozen(kw_only=True)
class SourceContext:
    """The definitions beside the sources and sinks of a dataset."""

    dataset: str
    schema: Schema
    scope: CodeScope
    connectors: Connectors

    @property
    def origin(self) -> Origin:
        """The place of a source, for messages."""
        return Origin(file=self.dataset, line=0)

    def own(self, what: str) -> OwnCode:
        """Return the place of code of a source."""
        return OwnCode(
            what=f"{what} of `{self.dataset}`",
            origin=self.origin,
            members=frozenset(self.schema.columns),
        )


def source_of(message: SourceMessage, context: SourceContext) -> Source:
    """Return a source.

    Raises:
        DefinitionError: A part of it is invalid, or is not translated.
    """
    made = frozenset(message.preproc)
    connector = context.connectors.connector_of(message.place, message.cursor, context.origin)
    every_us = _micros(message.every)
    return Source(
        connector=connector,
        disorder_us=message.disorder.micros,
        cdc=_cdc(message.cdc, context),
        # The client sends an interval with every source.
        every_us=every_us if is_polled(connector, bounded=message.bounded) else None,
        since_us=_micros(message.since),
        until_us=_micros(message.until),
        bounded=message.bounded,
        idleness_us=_micros(message.idleness),
        preproc=tuple(
            (field, _preproc(field, part, made, context)) for field, part in message.preproc.items()
        ),
        where=_where(message, context),
        origin=context.origin,
        sample=None
        if message.sample is None
        else Sample(message.sample.rate, tuple(sorted(message.sample.using))),
    )


def sink_of(message: SinkMessage, context: SourceContext) -> Sink:
    """Return a sink.

    Raises:
        DefinitionError: A part of it is invalid, or is not translated.
    """
    return Sink(
        target=context.connectors.connector_of(message.place, None, context.origin),
        cdc=None if message.cdc is None else _cdc(message.cdc, context),
        every_us=_micros(message.every),
        how=None if message.how is None else _style(message.how),
        renames=tuple(message.renames.items()),
        since_us=_micros(message.since),
        until_us=_micros(message.until),
        origin=context.origin,
    )


def _micros(part: DurationMessage | InstantMessage | None) -> int | None:
    return None if part is None else part.micros


def _cdc(number: int, context: SourceContext) -> Cdc:
    if not 0 <= number < len(_CDC):
        raise SourceInvalid(f"the unknown `cdc` {number}", origin=context.origin)
    return _CDC[number]


def _style(message: StyleMessage) -> str | Snapshots:
    kind, part = choice_of(message)
    if kind != "snapshots":
        return kind
    return Snapshots(marker=part.marker, num_retain=part.num_retain)


def _preproc(
    field: str, message: PreprocMessage, made: frozenset[str], context: SourceContext
) -> Preproc:
    of = context.schema.columns.get(field)
    if of is None:
        raise PreprocInvalid(
            f"`preproc` gives `{field}`, which is not a field of `{context.dataset}`",
            origin=context.origin,
        )
    if message.eval is not None:
        return _computed(field, message.eval, made, context)
    if message.value is not None:
        return Constant(_constant(message.value, of))
    return read_reference(message.ref or "", context.origin)


def _constant(value: ValueMessage, of: DataType) -> LiteralValue:
    _, constant = choice_of(value)
    if isinstance(constant, InstantMessage):
        instant: LiteralValue = constant.micros
        return instant if isinstance(inner(of), Datetime) else literal_of_value(instant, of)
    return literal_of_value(constant, of)


def _computed(
    field: str, message: EvalMessage, made: frozenset[str], context: SourceContext
) -> Computed | ComputedByCode:
    extra, what = _columns(message.schema), f"`preproc` of `{field}`"
    if field == context.schema.timestamp:
        raise PreprocInvalid(
            f"the timestamp `{field}` cannot be computed by `eval`",
            origin=context.origin,
            hint="use `ref(…)` or a constant",
        )
    if message.code is not None:
        code = user_code(message.code, context.scope, context.own(what))
        return ComputedByCode(code, *frame_columns(extra, code, context.schema, made))
    if message.expression is None:
        raise PreprocInvalid(f"{what} is empty", origin=context.origin)
    node = expression_of(message.expression)
    return Computed(expression=node, schema=used_columns(node, extra, context.schema))


def _where(message: SourceMessage, context: SourceContext) -> Where | WhereByCode | None:
    extra = {} if message.where_schema is None else _columns(message.where_schema)
    if message.where_code is not None:
        code = user_code(message.where_code, context.scope, context.own("`where`"))
        return WhereByCode(code, *frame_columns(extra, code, context.schema, frozenset()))
    if message.where is None:
        return None
    node = expression_of(message.where)
    return Where(expression=node, schema=used_columns(node, extra, context.schema))


def _columns(message: SchemaMessage) -> Mapping[str, DataType]:
    return {column.name: data_type(column.type) for column in message.columns}
