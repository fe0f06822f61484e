# mypy: disable-error-code="arg-type,misc,dict-item"
"""Offline queries: many keys, each as of its own instant, answered as the online reader would.

Spark joins the spine with each dataset's history, in buckets of keys; in a bucket the facts are
applied to an index in the order of their log, and each row of the spine is looked up when the
index contains exactly the offsets of that row. So an offline answer equals the online answer, by
the same code. The steps after the lookups are the same read plan, too.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from narthex._base import Json, from_plain, to_plain
from narthex._formats import coerce
from narthex._formats.arrow import array_of
from narthex._ir import Cell, DatasetPlan, Datetime, Definitions, HistorySpec, LogShape
from narthex._query import ReadPlan, execute
from narthex._query import plan as plan_read
from narthex._runtime.workers import WorkerPool
from narthex.settings import OFFLINE_ANSWERS, OFFLINE_SPINE
from narthex_spark_apps.offline.historical_lookup import OUTPUT, ReplayLimit, answer_bucket
from narthex_spark_apps.offline.watermarks import newest_rows
from narthex_stores import HistoryTable, LookupResult, fact_schema

BUCKETS = 8
_UNPACK = msgspec.msgpack.Decoder()


@attrs.frozen
class OfflineLookup:
    """One lookup: of a dataset, under a key, as of an instant, at log offsets."""

    dataset: str
    key: tuple[Cell, ...]
    as_of: int
    limits: ReplayLimit


class _NotLookedUp(Exception):
    """A lookup that the next Spark job will answer."""


@attrs.frozen(kw_only=True)
class OfflineDataset:
    """The location of a dataset's history.

    Attributes:
        log: The physical name of its topic, which is the key of its offsets.
    """

    plan: DatasetPlan
    history: str
    log: str


@attrs.frozen(kw_only=True)
class OfflineQuery:
    """An offline query as stored by the server."""

    definitions: Definitions
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    timestamp_column: str
    offsets_column: str | None
    spine: Path
    output: Path
    datasets: dict[str, OfflineDataset]


def parse_query(request: Json, directory: Path) -> OfflineQuery:
    """Parse a request of the server; the spine and the answers are files of `directory`.

    Raises:
        TypeError: The request is not an offline query.
    """
    if not isinstance(request, dict) or not isinstance(request["datasets"], dict):
        raise TypeError("not an offline query")
    definitions = from_plain(request["definitions"])
    if not isinstance(definitions, Definitions):
        raise TypeError("an offline query without definitions")
    return OfflineQuery(
        definitions=definitions,
        inputs=tuple(_texts(request["inputs"])),
        outputs=tuple(_texts(request["outputs"])),
        timestamp_column=str(request["timestamp_column"]),
        offsets_column=str(request["offsets_column"]) if request["offsets_column"] else None,
        spine=directory / OFFLINE_SPINE,
        output=directory / OFFLINE_ANSWERS,
        datasets={name: _dataset(one) for name, one in request["datasets"].items()},
    )


def _texts(items: Json) -> Iterable[str]:
    return (str(item) for item in items) if isinstance(items, list) else ()


def _dataset(request: Json) -> OfflineDataset:
    if not isinstance(request, dict):
        raise TypeError("not a dataset of an offline query")
    plan = from_plain(request["plan"])
    if not isinstance(plan, DatasetPlan):
        raise TypeError("a dataset without a plan")
    return OfflineDataset(plan=plan, history=str(request["history"]), log=str(request["log"]))


def answer_query(
    session: SparkSession,
    query: OfflineQuery,
    *,
    workers: WorkerPool,
    progress: Callable[[dict[str, Json]], None],
) -> int:
    """Write the answers of a query to `query.output`, in spine order; return the number of rows."""
    plans = {name: one.plan for name, one in query.datasets.items()}
    plan = plan_read(query.definitions, plans, inputs=query.inputs, outputs=query.outputs)
    spine = _Spine.load(query, plan)
    found: dict[OfflineLookup, LookupResult | None] = {}
    while True:
        answers, order, missing = _attempt(plan, query, spine, found, workers)
        if not missing:
            break
        for name, wanted in missing.items():
            progress({"rows": spine.rows, "looking_up": name, "lookups": len(wanted)})
            found |= look_up(session, query.datasets[name], sorted_lookups(wanted))
    columns = {
        name: array_of([cell for group in answers for cell in group[name]], plan.types[name])
        for name in plan.outputs
    }
    table = pa.table({"row": order, **columns}).sort_by("row").drop_columns(["row"])
    pq.write_table(table, query.output)
    return spine.rows


def sorted_lookups(wanted: set[OfflineLookup]) -> list[OfflineLookup]:
    """Sort lookups in an order that does not depend on hashes."""
    return sorted(wanted, key=lambda w: (w.limits, w.as_of, repr(w.key)))


LimitsOf: TypeAlias = Mapping[str, ReplayLimit]
"""The log offsets at which each dataset is read."""


@attrs.frozen
class _Group:
    """Rows of the spine that are answered together, with the offsets of each instant."""

    limits: Mapping[int, LimitsOf]
    rows: tuple[int, ...]

    def at(self, instant: int) -> LimitsOf:
        """Return the offsets of an instant; for an unknown instant, those that all instants share.

        Raises:
            _ManyOffsetsError: The instant is not in the group, and the group has several offsets.
        """
        found = self.limits.get(instant)
        if found is None and len(set(map(id, self.limits.values()))) == 1:
            found = next(iter(self.limits.values()))
        if found is None:
            raise _ManyOffsetsError
        return found


class _ManyOffsetsError(Exception):
    """Rows at different log offsets cannot be answered together."""


@attrs.frozen(kw_only=True)
class _Spine:
    columns: dict[str, list[Cell]]
    as_of: list[int]
    groups: tuple[_Group, ...]

    @property
    def rows(self) -> int:
        return len(self.as_of)

    @classmethod
    def load(cls, query: OfflineQuery, plan: ReadPlan) -> "_Spine":
        table = pq.read_table(query.spine)
        columns = {
            name: [coerce(cell, plan.types[name]) for cell in table.column(name).to_pylist()]
            for name in query.inputs
        }
        as_of = [
            int(str(coerce(cell, Datetime())))
            for cell in table.column(query.timestamp_column).to_pylist()
        ]
        texts = (
            [str(text or "") for text in table.column(query.offsets_column).to_pylist()]
            if query.offsets_column
            else [""] * len(as_of)
        )
        limits = {text: _limits(query, text) for text in dict.fromkeys(texts)}
        seen: dict[int, list[str]] = {}
        rows: dict[int, list[int]] = {}
        for row, (instant, text) in enumerate(zip(as_of, texts, strict=True)):
            of_instant = seen.setdefault(instant, [])
            if text not in of_instant:
                of_instant.append(text)
            rows.setdefault(of_instant.index(text), []).append(row)
        groups = tuple(
            _Group({as_of[row]: limits[texts[row]] for row in members}, tuple(members))
            for members in rows.values()
        )
        return cls(columns=columns, as_of=as_of, groups=groups)

    def apart(self, group: _Group) -> tuple[_Group, ...]:
        """Divide a group so that each part has one set of offsets."""
        parts: dict[int, list[int]] = {}
        for row in group.rows:
            parts.setdefault(id(group.limits[self.as_of[row]]), []).append(row)
        return tuple(
            _Group({self.as_of[row]: group.limits[self.as_of[row]] for row in rows}, tuple(rows))
            for rows in parts.values()
        )


def _limits(query: OfflineQuery, text: str) -> dict[str, ReplayLimit]:
    if not text:
        return dict.fromkeys(query.datasets, "")
    offsets = json.loads(text)
    return {
        name: json.dumps(offsets[name].get(dataset.log, {}), sort_keys=True)
        if name in offsets
        else ""
        for name, dataset in query.datasets.items()
    }


def _attempt(
    plan: ReadPlan,
    query: OfflineQuery,
    spine: _Spine,
    found: Mapping[OfflineLookup, LookupResult | None],
    workers: WorkerPool,
) -> tuple[list[dict[str, list[Cell]]], list[int], dict[str, set[OfflineLookup]]]:
    """Execute the plan for each group with the available lookup results.

    Returns the answers, the spine row of each answer, and the missing lookups.
    """
    order: list[int] = []
    answers: list[dict[str, list[Cell]]] = []
    missing: dict[str, set[OfflineLookup]] = {}
    waiting = list(reversed(spine.groups))
    while waiting:
        group = waiting.pop()
        lookup = functools.partial(_lookup, group, found, missing)
        columns = {n: [spine.columns[n][row] for row in group.rows] for n in query.inputs}
        as_of = [spine.as_of[row] for row in group.rows]
        try:
            answers.append(execute(plan, columns, lookup=lookup, workers=workers, as_of=as_of))
        except _NotLookedUp:
            continue
        except _ManyOffsetsError:
            waiting += reversed(spine.apart(group))
            continue
        order.extend(group.rows)
    return answers, order, missing


def _lookup(
    group: _Group,
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


def look_up(
    session: SparkSession, dataset: OfflineDataset, wanted: Sequence[OfflineLookup]
) -> dict[OfflineLookup, LookupResult | None]:
    """Look up keys as of instants at log offsets, in one Spark job."""
    plan = dataset.plan
    answer = functools.partial(answer_bucket, json.dumps(to_plain(plan.index)))
    states = _history(session, dataset)
    newest = newest_rows(states, plan.index, {one.limits for one in wanted})
    spine = _together(_bucketed(_spine_frame(session, plan, wanted, newest), plan))
    history = _bucketed(states, plan)
    if plan.correctable and plan.log.shape is LogShape.CONTRIBUTIONS:
        history = _wherever_it_was(history)
    buckets = spine.groupBy("bucket").cogroup(_together(history).groupBy("bucket"))
    answered = buckets.applyInArrow(answer, OUTPUT).toArrow()
    found: dict[OfflineLookup, LookupResult | None] = {}
    for row in answered.to_pylist():
        values = tuple(_tupled(cell) for cell in _UNPACK.decode(row["cells"]))
        found[wanted[row["row"]]] = (
            LookupResult(values=values, event_time=row["event_time"]) if row["found"] else None
        )
    return found


def _spine_frame(
    session: SparkSession,
    plan: DatasetPlan,
    wanted: Sequence[OfflineLookup],
    newest: Mapping[ReplayLimit, int],
) -> DataFrame:
    schema = fact_schema(plan.log)
    keys = {
        f"k_{column.name}": array_of([one.key[place] for one in wanted], column.type).cast(
            schema.field(f"k_{column.name}").type
        )
        for place, column in enumerate(plan.log.keys)
    }
    return session.createDataFrame(
        pa.table(
            {
                "row": pa.array(range(len(wanted)), pa.int64()),
                "as_of": pa.array([one.as_of for one in wanted], pa.int64()),
                "limits": pa.array([one.limits for one in wanted], pa.string()),
                "newest": pa.array([newest.get(one.limits) for one in wanted], pa.int64()),
                **keys,
            }
        )
    )


def _history(session: SparkSession, dataset: OfflineDataset) -> DataFrame:
    files = HistoryTable(dataset.history, HistorySpec(log=dataset.plan.log)).files()
    if files:
        return session.read.parquet(*files)
    return session.createDataFrame(fact_schema(dataset.plan.log).empty_table())


def _bucketed(frame: DataFrame, plan: DatasetPlan) -> DataFrame:
    keys = [sf.col(f"k_{column.name}") for column in plan.log.keys]
    return frame.withColumn("bucket", sf.pmod(sf.hash(*keys), sf.lit(BUCKETS)))


def _together(frame: DataFrame) -> DataFrame:
    # Both sides get the same partitions, so that Spark need not move them into a single one.
    return frame.repartition(BUCKETS, "bucket")


def _wherever_it_was(history: DataFrame) -> DataFrame:
    """Assign each state of a row to every bucket that contains a state of the row.

    Only the newer state of a row shows that it moved from one group to another.
    """
    buckets = history.groupBy("row_id").agg(sf.collect_set("bucket").alias("buckets"))
    return (
        history.drop("bucket")
        .join(buckets, "row_id")
        .withColumn("bucket", sf.explode("buckets"))
        .drop("buckets")
    )


def _tupled(cell: object) -> Cell:
    match cell:
        case list():
            return tuple(_tupled(item) for item in cell)
        case dict():
            return {str(name): _tupled(item) for name, item in cell.items()}
        case None | bool() | int() | float() | str() | bytes():
            return cell
        case _:
            raise TypeError(f"{type(cell).__name__} is not a cell")
