"""The rows of a dataset's history as a frame, which is what Great Expectations reads."""

import pandas as pd
import pyarrow as pa

from narthex._ir import LogSpec
from narthex_stores import HistoryTable, alive, public


def rows_between(table: HistoryTable, *, from_us: int, to_us: int) -> pd.DataFrame:
    """Return the rows that stand in a span of event time, under their public names.

    Args:
        table: The history.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.
    """
    return frame(table.log, alive(table.scan(from_us=from_us, to_us=to_us)))


def frame(log: LogSpec, states: pa.Table) -> pd.DataFrame:
    """Render states as a frame: one column a field, instants aware, null where there is none."""
    rendered: pd.DataFrame = public(log, states).to_pandas(
        # Whole numbers stay whole where some are null: a float would round the great ones.
        integer_object_nulls=True,
        maps_as_pydicts="strict",
    )
    return rendered
