"""Connectors, and the options of sources and sinks, as text for people."""

import enum
from collections.abc import Iterator
from typing import Final

import attrs

from narthex._base.times import render_duration, render_instant
from narthex._definition_code.layout import bare
from narthex._expr.render import render
from narthex._ir.connections import AwsSecretRef, Connector, SecretRef
from narthex._ir.entities import ColumnRef, Computed, Constant, Preproc, Sink, Source, Where

_LEFT_OUT: Final = {"connector", "target", "preproc", "where", "sample", "env", "origin"}
"""Attributes of a source or a sink that are written in another way than by their name."""


def connector_properties(connector: Connector) -> dict[str, str]:
    """Return the parts of a connector that have a value, by name; credentials are not named."""
    return dict(_properties(connector, ""))


def source_options(source: Source) -> dict[str, str]:
    """Return the options of a source that were set, by name, as text for people."""
    said = _options(source)
    said |= {f"preproc of {field}": _preproc(how) for field, how in source.preproc}
    if isinstance(source.where, Where):
        said["where"] = bare(render(source.where.expression))
    elif source.where is not None:
        said["where"] = "a function"
    if source.sample is not None:
        said["sample"] = f"{source.sample.rate} of the rows by {', '.join(source.sample.using)}"
    return said


def sink_options(sink: Sink) -> dict[str, str]:
    """Return the options of a sink that were set, by name, as text for people."""
    return _options(sink)


def _properties(record: object, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in _attributes(record):
        path = f"{prefix}{name}"
        match value:
            case None | "" | ():
                continue
            case SecretRef() | AwsSecretRef():
                yield path, "a secret"
            case _ if attrs.has(type(value)):
                yield path, type(value).__name__
                yield from _properties(value, f"{path}.")
            case _:
                yield path, _text(name, value)


def _attributes(record: object) -> Iterator[tuple[str, object]]:
    for field in getattr(type(record), "__attrs_attrs__", ()):
        yield field.name, getattr(record, field.name)


def _options(use: Source | Sink) -> dict[str, str]:
    """Return the options of a source or a sink that were set."""
    return {
        name.removesuffix("_us"): _text(name, value)
        for name, value in _attributes(use)
        if name not in _LEFT_OUT and value is not None and value is not False and value != ()
    }


def _text(name: str, value: object) -> str:
    match value:
        case enum.Enum():
            return str(value.value)
        case bool():
            return "yes" if value else "no"
        case int() if name in {"since_us", "until_us"}:
            return render_instant(value)
        case int() if name.endswith("_us"):
            return render_duration(value)
        case tuple():
            return ", ".join(_item(one) for one in value)
        case _:
            return str(value)


def _item(one: object) -> str:
    return " as ".join(map(str, one)) if isinstance(one, tuple) else str(one)


def _preproc(how: Preproc) -> str:
    match how:
        case Constant(value=value):
            return f"the constant {value!r}"
        case ColumnRef(column=column, path=path):
            return "".join([f"the column {column}", *(f"[{one}]" for one in path)])
        case Computed(expression=expression):
            return bare(render(expression))
        case _:
            return "a function"
