"""Summaries of the rows that arrived in datasets, by column and by the hour of their arrival.

Rows of a dataset are those between two positions of its log, which Kafka finds by the time of its
records. Of a dataset that ends in an aggregate, they are the values of sampled keys as of the end
of an hour in which rows arrived. An hour is summarized as a whole and replaces what is stored of
it, so a repetition changes nothing.
"""

import datetime as dt
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from narthex._base import HOUR_US, Json, from_plain
from narthex._drift import FeatureSummary, kind_of, merged_summary, summary_of
from narthex._formats import render_cells
from narthex._formats.arrow import stored_cells
from narthex._ir import DatasetPlan, DataType
from narthex.settings import Settings
from narthex_expectations.frames import open_history
from narthex_expectations.sampled_rows import sampled_values
from narthex_expectations.server_client import ServerRefusedError, column_state, put_columns
from narthex_stores import (
    HistoryTable,
    LogReader,
    TooManyStatesError,
    alive,
    history_path,
    platform_broker,
)

MOST_STATES: Final = 200_000
"""How many fact states are in memory at once."""

BACK_US: Final = 48 * HOUR_US
"""How far back hours are summarized that no run has summarized."""

Offsets: TypeAlias = Mapping[int, int]
"""The next offset of each partition of a log."""

Summaries: TypeAlias = Mapping[str, FeatureSummary]
"""Summaries by column."""


@attrs.frozen(kw_only=True)
class HistoryOfBranches:
    """A history, and the branches that read it.

    Attributes:
        branches: The names of the branches.
        newest: The newest hour that is stored for all of them; None if one has none.
    """

    plan: DatasetPlan
    history_path: str
    topic: str
    branches: tuple[str, ...]
    newest: dt.datetime | None


@attrs.frozen(kw_only=True)
class SummarizedColumns:
    """The result of a run.

    Attributes:
        rows: How many rows were summarized, those of several branches once.
        summaries: How many summaries of an hour of a column were stored.
    """

    rows: int = 0
    summaries: int = 0


def summarize_columns(settings: Settings, *, now_us: int) -> SummarizedColumns:
    """Summarize the rows that have arrived in all datasets since the last run.

    The newest two hours that are stored are summarized again: they may have been incomplete.

    Raises:
        ServerRefusedError: The server does not answer.
        StoreError: The cluster or a store does not answer.
    """
    done = SummarizedColumns()
    with LogReader(platform_broker(settings)) as reader:
        for one in histories_of(column_state(settings), settings.history_dir):
            for hour_us, summaries in _hours(one, reader, now_us):
                posted = _posted(one, hour_us, summaries)
                put_columns(settings, posted)
                rows = max((summary.rows for summary in summaries.values()), default=0)
                done = SummarizedColumns(
                    rows=done.rows + rows, summaries=done.summaries + len(posted)
                )
    return done


def histories_of(listed: Sequence[Json], history_dir: str) -> list[HistoryOfBranches]:
    """Return the histories of the datasets that the server lists, each once.

    Args:
        listed: The datasets.
        history_dir: The directory of histories.

    Raises:
        ServerRefusedError: An entry describes no dataset.
    """
    found: dict[tuple[str, str], HistoryOfBranches] = {}
    for plain in listed:
        one = _history(plain, history_dir)
        place = (one.history_path, one.plan.name)
        known = found.get(place)
        if known is not None:
            hours = (known.newest, one.newest)
            newest = None if None in hours else min(hour for hour in hours if hour is not None)
            one = attrs.evolve(known, branches=(*known.branches, *one.branches), newest=newest)
        found[place] = one
    return [*found.values()]


def _history(plain: Json, history_dir: str) -> HistoryOfBranches:
    match plain:
        case {
            "branch": str(branch),
            "plan": described,
            "history": str(name),
            "topic": str(topic),
            "newest": (str() | None) as newest,
        } if isinstance(plan := from_plain(described), DatasetPlan):
            return HistoryOfBranches(
                plan=plan,
                history_path=history_path(history_dir, name),
                topic=topic,
                branches=(branch,),
                newest=None if newest is None else dt.datetime.fromisoformat(newest),
            )
        case _:
            raise ServerRefusedError("the server's answer describes no dataset")


def first_hour(newest: dt.datetime | None, *, now_us: int) -> int:
    """Return the first hour to summarize, microseconds.

    It is the hour before the newest that is stored, and at most two days ago.
    """
    this_hour = now_us - now_us % HOUR_US
    earliest = this_hour - BACK_US
    if newest is None:
        return earliest
    return max(earliest, int(newest.timestamp()) * 1_000_000 - HOUR_US)


def _hours(
    one: HistoryOfBranches, reader: LogReader, now_us: int
) -> Iterator[tuple[int, Summaries]]:
    """Yield the summaries of each hour in which rows arrived."""
    start = first_hour(one.newest, now_us=now_us)
    since = _offsets(reader, one.topic, start)
    if since == {place[1]: at for place, at in reader.end_offsets([one.topic]).items()}:
        return
    try:
        table = open_history(one.plan, one.history_path)
    except FileNotFoundError:  # its branches were deleted meanwhile
        return
    reached = table.offsets()
    for hour in range(start, now_us, HOUR_US):
        until = _offsets(reader, one.topic, hour + HOUR_US)
        below = {p: min(at, max(reached.get(p, 0), since[p])) for p, at in until.items()}
        if below != since:
            at = min(hour + HOUR_US, now_us) - 1
            yield hour, summaries_of(one.plan, table, since, below, as_of=at)
        since = until


def _offsets(reader: LogReader, topic: str, instant_us: int) -> dict[int, int]:
    return reader.offsets_since(topic, since_ms=-(-instant_us // 1000))


def summaries_of(
    plan: DatasetPlan,
    table: HistoryTable,
    since: Offsets,
    until: Offsets,
    *,
    as_of: int,
    most: int = MOST_STATES,
) -> Summaries:
    """Summarize the columns, but keys and event time, of the rows between offsets of a log.

    Of several states of a row, the newest one counts; of more than `most` states, the newest one in
    each part of them.

    Args:
        plan: The dataset.
        table: Its history.
        since: The first offset of each partition.
        until: The next offset of each partition.
        as_of: The instant of aggregates, microseconds.
        most: How many fact states are in memory at once.
    """
    columns = {column.name: column.type for column in plan.schema.values}
    if plan.aggregates:
        try:
            found = sampled_values(plan, table, as_of=as_of)
        except TooManyStatesError:  # of a single key, which cannot be looked up
            return {}
        return _columns(found.states, columns)
    parts = [
        _columns(alive(table.scan(since=start, offsets=end)), columns)
        for start, end in parts_of(since, until, most=most)
    ]
    return {name: merged_summary(part[name] for part in parts) for name in columns}


def parts_of(since: Offsets, until: Offsets, *, most: int) -> Iterator[tuple[Offsets, Offsets]]:
    """Divide the records between offsets into parts of about `most` records."""
    counts = {partition: at - since.get(partition, 0) for partition, at in until.items()}
    number = max(1, -(-sum(counts.values()) // most))
    bounds = [
        {partition: since.get(partition, 0) + of * n // number for partition, of in counts.items()}
        for n in range(number + 1)
    ]
    yield from itertools.pairwise(bounds)


def _columns(states: pa.Table, columns: Mapping[str, DataType]) -> Summaries:
    return {
        name: summary_of(_rendered(states, name, of), kind_of(of)) for name, of in columns.items()
    }


def _rendered(states: pa.Table, name: str, of: DataType) -> list[Json]:
    return render_cells(stored_cells(states.column(f"v_{name}"), of), of)


def _posted(one: HistoryOfBranches, hour_us: int, summaries: Summaries) -> list[Json]:
    hour = dt.datetime.fromtimestamp(hour_us // 1_000_000, tz=dt.UTC).isoformat()
    return [*_uploads(one.branches, one.plan.name, hour, summaries)]


def _uploads(
    branches: Iterable[str], dataset: str, hour: str, summaries: Summaries
) -> Iterator[Json]:
    for branch in branches:
        for column, summary in summaries.items():
            yield {
                "branch": branch,
                "dataset": dataset,
                "column": column,
                "hour": hour,
                "summary": summary.plain(),
            }
