"""Formats of changes in messages: rows as JSON, and Debezium's envelopes."""

import json

from narthex._base import Json
from narthex._formats import render_cell
from narthex._ir import Fact, SinkJobSpec
from narthex_spark_apps.sinks.changes import RowChange

_MILLI_US = 1000


def row_of_fact(fact: Fact, spec: SinkJobSpec) -> dict[str, Json]:
    """Return a row with its public names, in the order of the dataset's fields."""
    log = spec.log
    cells = {
        **{column.name: cell for column, cell in zip(log.keys, fact.key, strict=True)},
        **{column.name: cell for column, cell in zip(log.values, fact.values, strict=True)},
        log.time_field: fact.event_time,
    }
    return {f.name: render_cell(cells[f.name], f.type) for f in spec.schema.fields}


def envelope(change: RowChange, spec: SinkJobSpec) -> dict[str, Json]:
    """Return a change as a Debezium envelope.

    `source.row` identifies the row and `source.version` orders its states, both as hexadecimal
    digits. `ts_ms` is the row's own instant, for a deleted row that of its end; `ts_us` is exact.
    """
    before, after = (
        None if fact is None else row_of_fact(fact, spec) for fact in (change.before, change.after)
    )
    return {
        "op": change.op.value,
        "before": before,
        "after": after,
        "ts_ms": change.at_us // _MILLI_US,
        "ts_us": change.at_us,
        "source": {
            "connector": "narthex",
            "name": spec.dataset,
            "row": change.fact.row_id.hex(),
            "version": change.fact.version.hex(),
        },
    }


def key_of_change(change: RowChange, spec: SinkJobSpec) -> dict[str, Json]:
    """Return the identity of the row: its key, or the row id of a keyless row."""
    if not spec.log.keys:
        return {"row": change.identity.hex()}
    return {
        column.name: render_cell(cell, column.type)
        for column, cell in zip(spec.log.keys, change.fact.key, strict=True)
    }


def as_json(value: Json) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
