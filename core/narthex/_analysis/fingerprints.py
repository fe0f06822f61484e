"""The hash of an asset's meaning, independent of names, owners, comments and layout.

`fingerprint` is the SHA-256 of "nx1", a tag that names the kind of the value, the value in
canonical bytes (`narthex._base.canonical`) and the fingerprints of its inputs, in order.
So a change affects exactly the assets downstream of it, and those upstream stay shared.

The hash leaves out: names of datasets, pipelines and featuresets (renamed ones share their assets;
a name that identifies something outside, such as an endpoint, is in `source_id`); each field that
is declared as a description; the polling interval of a source and the security of a connection
(they change no result; the name of a secret is included); env selectors, which are resolved
before; expectations that only observe.
"""

import hashlib
from typing import Final, assert_never

import attrs

from narthex._base.canonical import encode
from narthex._base.records import Value
from narthex._connectors.registry import source_kind
from narthex._ir.assets import Fingerprint
from narthex._ir.entities import Dataset, Expectation, Preproc, Severity, Source
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
    Latest,
    Operator,
    Rename,
    Select,
    Transform,
    Union,
)
from narthex._ir.schema import Column, Schema

ENGINE_SEMANTICS: Final = {
    "source": 1,
    "filter": 1,
    "assign": 1,
    "assign_code": 1,
    "select": 1,
    "drop": 1,
    "rename": 1,
    "drop_null": 1,
    "transform": 1,
    "dedup": 1,
    "explode": 1,
    "union": 1,
    "changelog": 1,
    "join": 1,
    "aggregate": 1,
    "first": 1,
    "latest": 1,
    "enforce": 1,
}
"""The version of each kind of step; raise it by hand when the step computes another result."""


def fingerprint(tag: str, value: Value, inputs: tuple[Fingerprint, ...] = ()) -> Fingerprint:
    """Hash a value and the fingerprints of its inputs under a tag.

    Raises:
        NotCanonicalError: The value has no canonical bytes.
    """
    name = tag.encode()
    hashed = hashlib.sha256(b"nx1" + bytes([len(name)]) + name)
    hashed.update(encode(value))
    hashed.update(encode(inputs))
    return Fingerprint(hashed.digest())


def source_id(source: Source) -> str:
    """Return the string that identifies a source externally and orders ties between sources."""
    return source_kind(source.connector).identity(source.connector)


def source_fingerprint(source: Source, schema: Schema) -> Fingerprint:
    """Hash the place that rows come from and the processing of rows on the way in."""
    value = (ENGINE_SEMANTICS["source"], source_id(source), identity_of(source), schema)
    return fingerprint("source", value)


def identity_of(source: Source) -> Source:
    """Return the source without the settings that change no row."""
    connector = source_kind(source.connector).same_rows(source.connector)
    return attrs.evolve(
        source, connector=connector, every_us=None, env=(), preproc=_sorted_preproc(source)
    )


def enforced_identity(dataset: Dataset) -> tuple[Expectation, ...]:
    """Return the expectations that change which rows a dataset has, in an order of their own."""
    enforced = (attrs.evolve(one, severity=Severity.WARNING) for one in dataset.enforced)
    return tuple(sorted(dict.fromkeys(enforced), key=encode))


def _sorted_preproc(source: Source) -> tuple[tuple[str, Preproc], ...]:
    """Return the preproc entries sorted by field, as their order in a definition is irrelevant."""
    return tuple(sorted(source.preproc, key=lambda entry: entry[0]))


def operator_fingerprint(
    operator: Operator, inputs: dict[str, Fingerprint], columns: tuple[Column, ...]
) -> Fingerprint:
    """Hash a pipeline's last step with all steps before it.

    Args:
        operator: The last step.
        inputs: The data fingerprints of the datasets that it reads, by name.
        columns: The columns of its result.
    """
    return fingerprint("op.output", columns, (_steps_fingerprint(operator, inputs),))


def contributions_fingerprint(
    aggregate: Aggregate, inputs: dict[str, Fingerprint], kept: Value
) -> Fingerprint:
    """Hash the content of the log of a dataset that ends in an aggregate: rows by their groups.

    The hash does not depend on the version or on the aggregates and windows that are folded.

    Args:
        aggregate: The last step.
        inputs: The fingerprints of the datasets that it reads, by name.
        kept: The columns that the log has of each row, and for how long.
    """
    value = (ENGINE_SEMANTICS["aggregate"], aggregate.by, aggregate.along, aggregate.emit, kept)
    return fingerprint("contributions", value, (_steps_fingerprint(aggregate.input, inputs),))


def _steps_fingerprint(operator: Operator, inputs: dict[str, Fingerprint]) -> Fingerprint:
    """Hash a step with the steps before it, including both sides of joins and unions."""
    parts: list[tuple[str, Value, tuple[Fingerprint, ...]]] = []
    while not isinstance(operator, DatasetRef):
        parts.append((*_parameters(operator), _right_side(operator, inputs)))
        operator = operator.input
    found = fingerprint("op.dataset", None, (inputs[operator.dataset],))
    for kind, parameters, right in reversed(parts):
        value = (ENGINE_SEMANTICS[kind], parameters)
        found = fingerprint(f"op.{kind}", value, (found, *right))
    return found


def _right_side(operator: Operator, inputs: dict[str, Fingerprint]) -> tuple[Fingerprint, ...]:
    match operator:
        case Join():
            return (inputs[operator.right.dataset],)
        case Union():
            return (_steps_fingerprint(operator.other, inputs),)
        case _:
            return ()


def _parameters(operator: Operator) -> tuple[str, Value]:
    match operator:
        case Join():
            bounds = (operator.within_low_us, operator.within_high_us)
            return "join", (operator.how, operator.on, bounds, operator.fields)
        case Aggregate():
            return "aggregate", _aggregate_parameters(operator)
        case First() | Latest():
            return type(operator).__name__.lower(), (operator.by,)
        case DatasetRef():
            return "dataset", None
        case Dedup() | Explode() | Union() | Changelog() | Transform():
            return _reshaping_parameters(operator)
        case _:
            return _row_parameters(operator)


def _reshaping_parameters(
    operator: Dedup | Explode | Union | Changelog | Transform,
) -> tuple[str, Value]:
    match operator:
        case Dedup():
            return "dedup", (operator.by, operator.window)
        case Explode():
            return "explode", operator.columns
        case Union():
            return "union", None
        case Changelog():
            return "changelog", (operator.column, operator.change)
        case Transform():
            return "transform", (operator.columns, operator.code)
        case _:
            assert_never(operator)


def _aggregate_parameters(operator: Aggregate) -> Value:
    """Return the parameters; leave out those added later if they have their default values."""
    later = (operator.along, operator.emit, operator.window)
    if later == (None, Emit.EAGER, None):
        return (operator.by, operator.specs)
    return (operator.by, operator.specs, *later)


def _row_parameters(
    operator: Filter | Assign | AssignCode | Select | Drop | Rename | DropNull,
) -> tuple[str, Value]:
    match operator:
        case Filter():
            return "filter", operator.predicate
        case Assign():
            return "assign", operator.assignments
        case AssignCode():
            return "assign_code", (operator.column, operator.code)
        case Select():
            return "select", operator.columns
        case Drop():
            return "drop", operator.columns
        case Rename():
            return "rename", operator.names
        case DropNull():
            return "drop_null", operator.columns
        case _:
            assert_never(operator)
