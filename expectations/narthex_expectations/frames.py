"""The rows of a dataset's history as a data frame, the input of Great Expectations."""

import pandas as pd
import pyarrow as pa

from narthex._ir import LogSpec
from narthex_stores import HistoryTable, alive, public


def rows_between(table: HistoryTable, *, from_us: int, to_us: int) -> pd.DataFrame:
    """Return the valid rows in a span of event time, under their public names.

    Args:
        table: The history.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.
    """
    return frame(table.log, alive(table.scan(from_us=from_us, to_us=to_us)))


def frame(log: LogSpec, states: pa.Table) -> pd.DataFrame:
    """Return states as a data frame: a column per field, aware instants, null where absent."""
    rendered: pd.DataFrame = public(log, states).to_pandas(
        # Integer columns with nulls stay integers: a float would round great values.
        integer_object_nulls=True,
        maps_as_pydicts="strict",
    )
    return rendered
