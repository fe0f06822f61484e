"""The rows of a dataset's history as a data frame, the input of Great Expectations."""

import os
from collections.abc import Mapping, Sequence

import pandas as pd
import pyarrow as pa

from narthex._formats.arrow import array_of
from narthex._ir import Cell, DatasetPlan, DataType, HistorySpec, LogSpec
from narthex_stores import HistoryTable, alive, public, storage_options


def open_history(plan: DatasetPlan, path: str) -> HistoryTable:
    """Open the history of a dataset.

    Args:
        plan: The dataset.
        path: A path or an `s3://` URL, whose options come from the environment.

    Raises:
        FileNotFoundError: There is no history.
        StoreError: The store did not answer, or has another dataset's history.
    """
    return HistoryTable(path, HistorySpec(log=plan.log), storage=storage_options(os.environ))


def rows_between(
    table: HistoryTable,
    *,
    from_us: int | None,
    to_us: int | None,
    offsets: Mapping[int, int] | None = None,
) -> pd.DataFrame:
    """Return the valid rows in a span of event time, under their public names.

    Args:
        table: The history.
        from_us: The first instant, inclusive; None for no bound.
        to_us: The instant to stop before; None for no bound.
        offsets: Only rows below these next offsets; None for all.
    """
    states = table.scan(from_us=from_us, to_us=to_us, offsets=offsets)
    return frame(table.log, alive(states))


def rows_arrived(
    table: HistoryTable, *, since: Mapping[int, int], offsets: Mapping[int, int]
) -> pd.DataFrame:
    """Return the valid rows whose state is between offsets of the log, under their public names.

    Of several states of a row that arrived there, the newest one counts. A row that was superseded
    later is valid here: so the same offsets have the same rows for ever.

    Args:
        table: The history.
        since: The first offset of each partition.
        offsets: The next offset of each partition.
    """
    return frame(table.log, alive(table.scan(since=since, offsets=offsets)))


def frame(log: LogSpec, states: pa.Table) -> pd.DataFrame:
    """Return states as a data frame: a column per field, aware instants, null where absent."""
    return _rendered(public(log, states))


def frame_of_cells(
    cells: Mapping[str, Sequence[Cell]], columns: Mapping[str, DataType]
) -> pd.DataFrame:
    """Return cells as a data frame like that of a history, with the columns of `cells`."""
    arrays = [array_of(given, columns[name]) for name, given in cells.items()]
    return _rendered(pa.table(arrays, names=[*cells]))


def _rendered(table: pa.Table) -> pd.DataFrame:
    rendered: pd.DataFrame = table.to_pandas(
        # Integer columns with nulls stay integers: a float would round great values.
        integer_object_nulls=True,
        maps_as_pydicts="strict",
    )
    return rendered
