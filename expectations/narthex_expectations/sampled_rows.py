"""A sample of a dataset's rows, chosen by key; of aggregates, the values of keys as of an instant.

A dataset that ends in an aggregate has no rows: its history has the contributions of rows to
groups. So some of its keys are looked up, by the code of indexes.
"""

from typing import Final

import attrs
import pandas as pd
import polars as pl
import pyarrow as pa

from narthex._ir import DatasetPlan, Fact, LogShape, LogSpec, RowId, Version
from narthex_expectations.frames import frame
from narthex_stores import (
    HASH,
    STATES,
    HistoryTable,
    LogRow,
    PinnedHistory,
    TooManyStatesError,
    alive,
    to_table,
    values_as_of,
)

MOST_KEYS: Final = 10_000
"""The greatest number of keys of an aggregate that are looked up."""

MOST_STATES: Final = 200_000
"""The greatest number of fact states that are read."""


@attrs.frozen(kw_only=True)
class SampledRows:
    """Rows of a dataset.

    Attributes:
        rows: The rows, under their public names.
        share: About which share of the keys they are of; 1 for all.
        as_of: The instant as of which aggregates were computed; None for other datasets.
    """

    rows: pd.DataFrame
    share: float
    as_of: int | None = None


def sampled_rows(
    plan: DatasetPlan, table: HistoryTable, *, as_of: int | None, now_us: int
) -> SampledRows:
    """Return rows of a sample of keys; without keys, of event times.

    Args:
        plan: The dataset.
        table: Its history.
        as_of: The instant of aggregates, microseconds; by default that of the newest row, or now if
            that row is later. Of other datasets, rows until then; all by default.
        now_us: The present.

    Raises:
        TooManyStatesError: A single key has more than `MOST_STATES` states.
        StoreError: The store did not answer.
    """
    history = PinnedHistory.of(table)
    if not plan.aggregates:
        keys, share = _sample(history, most_keys=MOST_STATES)
        states = history.rows_of(keys, most=2 * MOST_STATES)
        rows = frame(table.log, alive(to_table(table.log, states)))
        if as_of is not None:
            rows = rows[rows[table.log.time_field] <= pd.Timestamp(as_of, unit="us", tz="UTC")]
        return SampledRows(rows=rows, share=share)
    at = min(history.newest_row() or 0, now_us) if as_of is None else as_of
    values = sampled_values(plan, table, as_of=at)
    return SampledRows(rows=frame(values.log, values.states), share=values.share, as_of=at)


@attrs.frozen(kw_only=True)
class SampledValues:
    """The values of some keys of an aggregate, in the form of facts.

    Attributes:
        log: The columns.
        states: A state for each key that has values.
        share: About which share of the keys they are of; 1 for all.
    """

    log: LogSpec
    states: pa.Table
    share: float


def sampled_values(plan: DatasetPlan, table: HistoryTable, *, as_of: int) -> SampledValues:
    """Return the values of a sample of the keys of an aggregate.

    Args:
        plan: The dataset, which ends in an aggregate.
        table: Its history.
        as_of: The instant, microseconds.

    Raises:
        TooManyStatesError: A single key has more than `MOST_STATES` states.
        StoreError: The store did not answer.
    """
    history = PinnedHistory.of(table)
    keys, share = _sample(history, most_keys=MOST_KEYS)
    states = history.rows_of(keys, most=2 * MOST_STATES)
    log, found = _values(plan, states, as_of=as_of, newest=history.newest_row())
    return SampledValues(log=log, states=found, share=share)


def _sample(history: PinnedHistory, *, most_keys: int) -> tuple[pl.DataFrame, float]:
    share = min(1.0, MOST_STATES / max(history.snapshot.states, 1))
    sampled = history.sampled_keys(share=share).sort(HASH)
    kept = sampled.filter(
        (pl.col(STATES).cum_sum() <= MOST_STATES) & (pl.int_range(pl.len()) < most_keys)
    )
    if sampled.height and not kept.height:
        raise TooManyStatesError(f"a single key has more than {MOST_STATES} states")
    of_sampled = kept.height / sampled.height if sampled.height else 1.0
    return kept.select(history.key_names), share * of_sampled


def _values(
    plan: DatasetPlan, states: list[LogRow], *, as_of: int, newest: int | None
) -> tuple[LogSpec, pa.Table]:
    """Look up all keys of states; each that is found is a row, at the event time of its newest."""
    keys = sorted({state.fact.key for state in states}, key=repr)
    found = values_as_of(plan.index, states, keys, as_of=as_of, newest=newest)
    log = LogSpec(
        shape=LogShape.KEYED,
        keys=plan.log.keys,
        values=plan.schema.values,
        time_field=plan.log.time_field,
    )
    rows = [
        LogRow(
            0,
            place,
            Fact(
                row_id=RowId(b"%d" % place),
                version=Version(b""),
                event_time=one.event_time,
                key=key,
                values=one.values,
            ),
        )
        for place, (key, one) in enumerate(zip(keys, found, strict=True))
        if one is not None
    ]
    return log, to_table(log, rows)
