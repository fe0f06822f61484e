"""The newest row of a dataset at given log offsets, from the states in its history."""

import functools
import json
import operator
from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from narthex._ir import TOMBSTONE_TIME, IndexSpec
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_stores import only_grows

_AT_ONCE: Final = 256
"""How many sets of offsets are compared in one pass over the history."""


def newest_rows(
    states: DataFrame, spec: IndexSpec, limits: Iterable[ReplayLimit]
) -> dict[ReplayLimit, int]:
    """Return the greatest event time of the rows below each of the offsets.

    The result has no offsets without a row below them. Without a history it is empty, and nothing
    is read.
    """
    if spec.history_us is None:
        return {}
    asked = sorted(set(limits))
    found: dict[ReplayLimit, int] = {}
    for start in range(0, len(asked), _AT_ONCE):
        found |= _newest(states, spec, asked[start : start + _AT_ONCE])
    return found


def _newest(
    states: DataFrame, spec: IndexSpec, limits: list[ReplayLimit]
) -> dict[ReplayLimit, int]:
    is_row = sf.col("alive") & (sf.col("event_time") < TOMBSTONE_TIME)
    if only_grows(spec):
        # Its rows stay rows, so their states need not be compared.
        row = states.agg(
            *[
                sf.max(sf.when(is_row & _below(text), sf.col("event_time"))).alias(str(place))
                for place, text in enumerate(limits)
            ]
        ).first()
    else:
        last = [
            sf.max_by(
                sf.when(is_row, sf.col("event_time")), sf.when(_below(text), sf.col("version"))
            ).alias(str(place))
            for place, text in enumerate(limits)
        ]
        rows = states.groupBy("row_id").agg(*last)
        row = rows.agg(
            *[sf.max(str(place)).alias(str(place)) for place in range(len(limits))]
        ).first()
    cells = [None] * len(limits) if row is None else list(row)
    return {text: cell for text, cell in zip(limits, cells, strict=True) if cell is not None}


def _below(limits: ReplayLimit) -> Column:
    """Return whether a state is below the offsets, of which those of absent partitions are 0."""
    if not limits:
        return sf.lit(True)
    places = [
        (sf.col("partition") == int(partition)) & (sf.col("offset") < int(end))
        for partition, end in json.loads(limits).items()
    ]
    return functools.reduce(operator.or_, places, sf.lit(False))
