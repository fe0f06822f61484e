"""Offline queries: many keys, each as of its own instant, answered as the online reader would.

The steps of the read plan are those of online queries; only the lookups differ, because each is at
the log offsets of its row. A query is answered by columns (`columnar_lookups`) unless it has lists
of keys or code that looks rows up. Then a wave of lookups is one Spark job per dataset.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from narthex._base import Json
from narthex._columnar_query import execute_columns, is_columnar, native_array
from narthex._formats.arrow import array_of
from narthex._ir import Cell, DatasetPlan
from narthex._query import ReadPlan, execute
from narthex._query import plan as plan_read
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.offline.columnar_lookups import ColumnarLookups
from narthex_spark_apps.offline.lookup_jobs import OfflineLookup, look_up, sorted_lookups
from narthex_spark_apps.offline.offline_request import OfflineQuery
from narthex_spark_apps.offline.pins import PinnedQuery, pin
from narthex_spark_apps.offline.run_progress import RunProgress
from narthex_spark_apps.offline.spine import ManyOffsetsError, Spine, SpineGroup, SpineRows
from narthex_stores import LookupResult


class _NotLookedUp(Exception):
    """A lookup that the next Spark job will answer."""


@attrs.frozen(kw_only=True)
class OfflineResult:
    """The end of an offline query.

    Attributes:
        rows: The number of its rows.
        offsets: The log offsets at which rows without offsets of their own were answered, in the
            form of `at` of a request.
    """

    rows: int
    offsets: dict[str, Json]


def answer_query(
    session: Callable[[], SparkSession],
    query: OfflineQuery,
    *,
    workers: WorkerPool,
    progress: Callable[[dict[str, Json]], None],
) -> OfflineResult:
    """Write the answers of a query to `query.output`, in spine order.

    Args:
        session: Returns the Spark session; called if lookups need a Spark job.
        query: The query.
        workers: Run authors' code.
        progress: Receives what is being done, and as `share` the share of the query that is done.

    Raises:
        TransientError: A history does not contain the offsets of a row.
    """
    plans = {name: one.plan for name, one in query.datasets.items()}
    plan = plan_read(query.definitions, plans, inputs=query.inputs, outputs=query.outputs)
    rows = SpineRows.load(query, plan)
    pinned = pin(query, rows.offsets)
    run = RunProgress(len(rows.as_of), progress)
    run.report()
    if is_columnar(plan):
        lookups = ColumnarLookups(session=session, pinned=pinned, rows=rows, progress=run)
        table = _by_columns(plan, rows, lookups, workers, run)
    else:
        table = _by_rows(session(), pinned, Spine.of(rows, pinned, plan), plan, workers, run)
    run.report(writing=query.output.name)
    pq.write_table(table, query.output)
    return OfflineResult(rows=table.num_rows, offsets=pinned.plain())


def _by_columns(
    plan: ReadPlan,
    rows: SpineRows,
    lookups: ColumnarLookups,
    workers: WorkerPool,
    progress: RunProgress,
) -> pa.Table:
    answers = execute_columns(
        plan,
        rows.frame,
        lookup=lookups,
        workers=workers,
        as_of=rows.as_of,
        reached=progress.reach,
    )
    return pa.table(
        {name: native_array(series, plan.types[name]) for name, series in answers.items()}
    )


def _by_rows(
    session: SparkSession,
    pinned: PinnedQuery,
    spine: Spine,
    plan: ReadPlan,
    workers: WorkerPool,
    progress: RunProgress,
) -> pa.Table:
    found: dict[OfflineLookup, LookupResult | None] = {}
    while True:
        answers, order, missing = _attempt(plan, spine, found, workers)
        progress.reach(len(order), spine.rows)
        if not missing:
            break
        for name, wanted in missing.items():
            progress.report(looking_up=name, lookups=len(wanted))
            found |= look_up(session, pinned.datasets[name], sorted_lookups(wanted))
    columns = {
        name: array_of([cell for group in answers for cell in group[name]], plan.types[name])
        for name in plan.outputs
    }
    return pa.table({"row": order, **columns}).sort_by("row").drop_columns(["row"])


def _attempt(
    plan: ReadPlan,
    spine: Spine,
    found: Mapping[OfflineLookup, LookupResult | None],
    workers: WorkerPool,
) -> tuple[list[Mapping[str, Sequence[Cell]]], list[int], dict[str, set[OfflineLookup]]]:
    """Execute the plan for each group with the available lookup results.

    Returns the answers, the spine row of each answer, and the missing lookups.
    """
    order: list[int] = []
    answers: list[Mapping[str, Sequence[Cell]]] = []
    missing: dict[str, set[OfflineLookup]] = {}
    waiting = list(reversed(spine.groups))
    while waiting:
        group = waiting.pop()
        lookup = functools.partial(_lookup, group, found, missing)
        columns = {n: [spine.columns[n][row] for row in group.rows] for n in plan.inputs}
        as_of = [spine.as_of[row] for row in group.rows]
        try:
            answers.append(execute(plan, columns, lookup=lookup, workers=workers, as_of=as_of))
        except _NotLookedUp:
            continue
        except ManyOffsetsError:
            waiting += reversed(spine.apart(group))
            continue
        order.extend(group.rows)
    return answers, order, missing


def _lookup(
    group: SpineGroup,
    found: Mapping[OfflineLookup, LookupResult | None],
    missing: dict[str, set[OfflineLookup]],
    plan: DatasetPlan,
    keys: Sequence[tuple[Cell, ...]],
    as_of: Sequence[int],
) -> list[LookupResult | None]:
    wanted = [
        OfflineLookup(plan.name, tuple(key), at, group.at(at)[plan.name])
        for key, at in zip(keys, as_of, strict=True)
    ]
    absent = {one for one in wanted if one not in found}
    if absent:
        missing.setdefault(plan.name, set()).update(absent)
        raise _NotLookedUp
    return [found[one] for one in wanted]
