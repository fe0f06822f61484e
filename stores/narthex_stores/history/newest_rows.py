"""The newest rows of a history, rendered for people."""

from pathlib import Path

import numpy as np

from narthex._base import Json
from narthex._formats import render_cell
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, HistorySpec, LogSpec, types
from narthex_stores.facts.states import alive
from narthex_stores.facts.tables import to_rows
from narthex_stores.history.table import HistoryTable

_MORE_STATES = 4
"""The first read takes this many states per row: some are superseded or tombstones."""


def history_rows(path: str | Path, log: LogSpec, *, newest: int) -> list[dict[str, Json]]:
    """Return the rows of the greatest event times, the newest first, as JSON by public names.

    Args:
        path: The path of the history.
        log: The log whose facts it holds.
        newest: How many rows at most.

    Raises:
        FileNotFoundError: The history does not exist.
        TransientError: The store did not answer.
    """
    table = HistoryTable(path, HistorySpec(log=log))
    times = table.scan(columns=["event_time"]).column("event_time").to_numpy()
    order = np.sort(times[times < TOMBSTONE_TIME])
    states = newest * _MORE_STATES
    while True:
        # Retractions are read with any span, so every row is read in full.
        enough = states >= len(order)
        found = alive(table.scan(from_us=None if enough else int(order[-states])))
        if enough or found.num_rows >= newest:
            break
        states *= _MORE_STATES
    latest = found.sort_by([("event_time", "descending"), ("row_id", "ascending")])
    return [render_fact(log, row.fact) for row in to_rows(log, latest.slice(0, newest))]


def render_fact(log: LogSpec, fact: Fact) -> dict[str, Json]:
    """Render a fact as JSON by public names: keys, values, then the event time."""
    cells: tuple[Cell, ...] = fact.key + fact.values[: len(log.inputs)]
    rendered = {
        column.name: render_cell(cell, column.type)
        for column, cell in zip(log.keys + log.inputs, cells, strict=True)
    }
    return rendered | {log.time_field: render_cell(fact.event_time, types.Datetime())}
