"""Preprocess raw rows: compute fields, leave rows out, draw a share."""

import ast
from collections.abc import Mapping, Sequence

import attrs

from narthex._base.origin import Origin
from narthex._expr.expression_types import misfit
from narthex._expr.typing import references
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    ColumnRef,
    Computed,
    ComputedByCode,
    Constant,
    Preproc,
    Where,
    WhereByCode,
)
from narthex._ir.entities import Sample as SampleEntity
from narthex._ir.expression_nodes import Node
from narthex._ir.node_schema import did_you_mean, listed
from narthex._ir.schema import Column, Role, Schema
from narthex._ir.types import Bool, DataType, Optional
from narthex._sdk.annotations import parse_annotation
from narthex._sdk.closure import resolve
from narthex._sdk.declare.expressions import node_of, type_of
from narthex._sdk.declare.literals import MisfitError, literal_of
from narthex.errors import DefinitionError, ExpressionTypeWrong, PreprocInvalid, SourceInvalid


@attrs.frozen
class Ref:
    """A raw column by name, or a member of it: `A[B][C]`."""

    column: str


@attrs.frozen(eq=False)
class Eval:
    """An expression of raw columns with the dataset's types, or those of `schema`."""

    expression: object
    schema: dict[str, object]


@attrs.frozen
class Sample:
    """A share of the rows: of the rows with equal `using` fields, all are taken or none."""

    rate: float
    using: Sequence[str]


def ref(ref_name: str) -> Ref:
    """Take a field from the raw column of another name, or from a member of it: `A[B][C]`."""
    return Ref(ref_name)


def eval(  # noqa: A001 (Fennel's name)
    expression: object, schema: Mapping[str, object] | None = None
) -> Eval:
    """Compute a field, or a condition, from raw columns.

    Args:
        expression: An expression of `col`, `lit` and `when`, or a function of a frame.
        schema: Types of raw columns that are not fields of the dataset.
    """
    return Eval(expression, dict(schema or {}))


def read_preproc(
    field: str, entries: Mapping[str, object], dataset: str, schema: Schema, origin: Origin
) -> Preproc:
    """Read the entry of `preproc` for one field.

    Raises:
        PreprocInvalid: The field does not exist, or the entry does not fit it.
        ExpressionTypeWrong: The expression has another type.
        DefinitionErrors: The function cannot be carried.
    """
    if field not in schema.columns:
        raise PreprocInvalid(
            f"`preproc` gives `{field}`, which is not a field of `{dataset}`; it has "
            f"{listed(schema.columns)}",
            origin=origin,
            hint=did_you_mean(field, schema.columns),
        )
    of, value = schema.columns[field], entries[field]
    match value:
        case Ref():
            return read_reference(value.column, origin)
        case Eval():
            if field == schema.timestamp:
                raise PreprocInvalid(
                    f"the timestamp `{field}` cannot be computed by `eval`",
                    origin=origin,
                    hint="use `ref(…)` or a constant",
                )
            return _computed(field, value, frozenset(entries), schema, origin)
        case _:
            return _constant(field, value, of, origin)


def read_reference(reference: str, origin: Origin) -> ColumnRef:
    """Read `column`, or `column[member][member]`.

    Raises:
        PreprocInvalid: A name is empty, or a bracket does not close.
    """
    column, *members = reference.split("[")
    path = [member.removesuffix("]") for member in members]
    if not all(member.endswith("]") for member in members) or "]" in column + "".join(path):
        raise PreprocInvalid(
            f"in `ref({reference!r})` a bracket does not close",
            origin=origin,
            hint="write it as `A[B][C]`",
        )
    if not all([column, *path]):
        raise PreprocInvalid(f"`ref({reference!r})` has an empty name", origin=origin)
    return ColumnRef(column, tuple(path))


def _computed(
    field: str, value: Eval, made: frozenset[str], schema: Schema, origin: Origin
) -> Computed | ComputedByCode:
    what, of = f"`preproc` of `{field}`", schema.columns[field]
    if callable(value.expression) and node_of(value.expression) is None:
        code = resolve(value.expression, what=what, origin=origin)
        return ComputedByCode(
            code, *frame_columns(_extra_columns(value, origin), code, schema, made)
        )
    node = _expression(value, of, schema, what, origin)
    extra = _extra_columns(value, origin)
    return Computed(expression=node, schema=used_columns(node, extra, schema))


def _constant(field: str, value: object, of: DataType, origin: Origin) -> Constant:
    try:
        return Constant(literal_of(value, of))
    except MisfitError as error:
        raise PreprocInvalid(
            f"the constant of `preproc` for `{field}` does not fit: {error}", origin=origin
        ) from None


def read_where(where: object, schema: Schema, origin: Origin) -> Where | WhereByCode | None:
    """Read `where`: an expression, or a function of a frame, that selects rows.

    Raises:
        PreprocInvalid: It is neither.
        ExpressionTypeWrong: It is not of type `bool`.
        DefinitionErrors: The function cannot be carried.
    """
    if where is None:
        return None
    call = where if isinstance(where, Eval) else Eval(where, {})
    if callable(call.expression) and node_of(call.expression) is None:
        code = resolve(call.expression, what="`where`", origin=origin)
        return WhereByCode(
            code, *frame_columns(_extra_columns(call, origin), code, schema, frozenset())
        )
    node = _expression(call, Optional(Bool()), schema, "`where`", origin)
    extra = _extra_columns(call, origin)
    return Where(expression=node, schema=used_columns(node, extra, schema))


def _extra_columns(value: Eval, origin: Origin) -> dict[str, DataType]:
    columns: dict[str, DataType] = {}
    for name, annotation in value.schema.items():
        try:
            columns[name] = parse_annotation(annotation)
        except DefinitionError as error:
            raise error.located(origin, subject=f"raw column `{name}`") from None
    return columns


def _raw_columns(extra: Mapping[str, DataType], schema: Schema) -> tuple[Column, ...]:
    columns: dict[str, DataType] = {
        field.name: field.type for field in schema.fields if field.role is not Role.TIMESTAMP
    }
    columns[schema.timestamp] = schema.columns[schema.timestamp]
    columns |= extra
    return tuple(Column(name, of) for name, of in columns.items())


def frame_columns(
    extra: Mapping[str, DataType], code: UserCode, schema: Schema, made: frozenset[str]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns of a function's frame: those that must be valid, and the others.

    The `extra` columns and the fields that the function names must be valid, except
    for the fields `made` by preproc, which may not exist before.
    """
    named = {
        node.value if isinstance(node, ast.Constant) else node.attr
        for node in ast.walk(ast.parse(code.source))
        if isinstance(node, ast.Constant | ast.Attribute)
    }
    strict = {n: of for n, of in schema.columns.items() if n in named and n not in made}
    strict |= extra
    offered = tuple(Column(n, of) for n, of in schema.columns.items() if n not in strict)
    return tuple(Column(name, of) for name, of in strict.items()), offered


def used_columns(node: Node, extra: Mapping[str, DataType], schema: Schema) -> tuple[Column, ...]:
    """Return the raw columns that an expression reads; only these must be valid for it."""
    read = references(node)
    return tuple(c for c in _raw_columns(extra, schema) if c.name in read)


def _expression(value: Eval, of: DataType, schema: Schema, what: str, origin: Origin) -> Node:
    node = node_of(value.expression)
    if node is None:
        raise PreprocInvalid(
            f"{what} got `{value.expression!r}`; expected an expression or a function",
            origin=origin,
        )
    extra = _extra_columns(value, origin)
    columns = {column.name: column.type for column in _raw_columns(extra, schema)}
    wrong = misfit(node, columns, type_of(value.expression) or of)
    wrong = wrong or misfit(node, columns, of)
    if wrong is not None:
        raise ExpressionTypeWrong(f"{what} is invalid: {wrong}", origin=origin)
    return node


def read_sample(
    sample: object, schema: Schema, preproc: Mapping[str, object], origin: Origin
) -> SampleEntity | None:
    """Read `sample`: a rate, or a rate with the fields by whose hash rows are drawn.

    Without fields, the keys are used, or all fields of a keyless dataset except the timestamp and
    the fields that preproc computes.

    Raises:
        SourceInvalid: It is neither, or no field is left for the hash.
    """
    match sample:
        case None:
            return None
        case float():
            fields = schema.keys or schema.values
            using = tuple(sorted(field.name for field in fields if field.name not in preproc))
            if not using:
                raise SourceInvalid(
                    "`sample` has no field to draw by: `preproc` gives all of them",
                    origin=origin,
                    hint='name the fields, `Sample(0.1, using=["…"])`',
                )
            return SampleEntity(sample, using)
        case Sample(rate=int() | float() as rate, using=[*names]) if names:
            return SampleEntity(float(rate), tuple(sorted(map(str, names))))
        case Sample():
            raise SourceInvalid(
                f"`{sample!r}` needs a rate and the fields to draw by",
                origin=origin,
                hint="without fields, write the rate alone: `sample=0.1`",
            )
        case _:
            raise SourceInvalid(
                f"`sample` got `{sample!r}`; expected a float or a `Sample`",
                origin=origin,
                hint="write `sample=0.1`, or `sample=Sample(0.1, using=[…])`",
            )
