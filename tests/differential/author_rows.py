"""Rows as the services of an author send them: facts as objects of JSON."""

from narthex._base import Json
from narthex._formats import render_cell
from narthex._ir import Cdc, Fact, Schema


def row_of_fact(fact: Fact, schema: Schema) -> dict[str, Json]:
    """Return the row of a fact; a fact that ends a row has no values."""
    types = schema.columns
    row: dict[str, Json] = {schema.timestamp: render_cell(fact.event_time, types[schema.timestamp])}
    row |= {c.name: render_cell(v, c.type) for c, v in zip(schema.keys, fact.key, strict=True)}
    if fact.alive:
        values = zip(schema.values, fact.values, strict=True)
        row |= {column.name: render_cell(cell, column.type) for column, cell in values}
    return row


def enveloped(row: dict[str, Json], cdc: Cdc, *, alive: bool = True) -> dict[str, Json]:
    """Return a row in the envelope in which its source expects it, if it expects one."""
    if cdc is not Cdc.DEBEZIUM:
        return row
    # A delete has its row's own instant: `ts_ms` is not exact enough for these.
    return {"op": "c", "after": row} if alive else {"op": "d", "before": row}
