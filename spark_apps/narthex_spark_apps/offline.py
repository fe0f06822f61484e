# mypy: disable-error-code="arg-type,misc,dict-item"
"""Offline queries: many keys, each as of its own instant, answered as the online reader would.

The spine and each dataset's history meet in Spark, in buckets of keys; in a bucket the facts are
applied to an index in the order of their log, and each row of the spine is looked up when the
index contains exactly the offsets that it asks at. So an offline answer is an online answer, by
the same code. What follows the look-ups is the same read plan, too.
"""

import functools
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from narthex.assets import DatasetPlan, HistorySpec, IndexSpec
from narthex.coerce import coerce
from narthex.entities import Definitions
from narthex.evaluate.query import execute
from narthex.facts import Cell
from narthex.readplan import ReadPlan
from narthex.readplan import plan as plan_read
from narthex.records import Json, from_plain, to_plain
from narthex.types import Datetime
from narthex.workers import WorkerPool, array_of
from narthex_stores import Found, HistoryTable, LmdbIndex, LogRow, fact_schema, to_rows

BUCKETS = 8
OUTPUT = "row long, found boolean, event_time long, cells binary"
_ARROW_OUTPUT = pa.schema(
    [
        ("row", pa.int64()),
        ("found", pa.bool_()),
        ("event_time", pa.int64()),
        ("cells", pa.binary()),
    ]
)
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder()

Limits: TypeAlias = str
"""JSON of partition to next offset, or empty for all that there is."""


@attrs.frozen
class Wanted:
    """One look-up: of a dataset, under a key, as of an instant, at log offsets."""

    dataset: str
    key: tuple[Cell, ...]
    as_of: int
    limits: Limits


class _NotLookedUp(Exception):
    """A look-up that the next Spark job will answer."""


@attrs.frozen(kw_only=True)
class OfflineDataset:
    """Where a dataset's history stands.

    Attributes:
        log: The physical name of its topic, by which offsets are named.
    """

    plan: DatasetPlan
    history: str
    log: str


@attrs.frozen(kw_only=True)
class OfflineQuery:
    """An offline query as the server stored it."""

    definitions: Definitions
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    timestamp_column: str
    offsets_column: str | None
    spine: Path
    output: Path
    datasets: dict[str, OfflineDataset]


def parse_query(request: Json) -> OfflineQuery:
    """Read what the server stored.

    Raises:
        TypeError: It is no offline query.
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
        spine=Path(str(request["spine"])),
        output=Path(str(request["output"])),
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
    """Answer a query into `query.output`, in the spine's order; gives the number of rows."""
    plans = {name: one.plan for name, one in query.datasets.items()}
    plan = plan_read(query.definitions, plans, inputs=query.inputs, outputs=query.outputs)
    spine = _Spine.load(query, plan)
    found: dict[Wanted, Found | None] = {}
    while True:
        answers, order, missing = _attempt(plan, query, spine, found, workers)
        if not missing:
            break
        for name, wanted in missing.items():
            progress({"rows": spine.rows, "looking_up": name, "lookups": len(wanted)})
            found |= look_up(session, query.datasets[name], sorted_wanted(wanted))
    columns = {
        name: array_of([cell for group in answers for cell in group[name]], plan.types[name])
        for name in plan.outputs
    }
    table = pa.table({"row": order, **columns}).sort_by("row").drop_columns(["row"])
    pq.write_table(table, query.output)
    return spine.rows


def sorted_wanted(wanted: set[Wanted]) -> list[Wanted]:
    """Give look-ups in an order that does not depend on hashes."""
    return sorted(wanted, key=lambda w: (w.limits, w.as_of, repr(w.key)))


LimitsOf: TypeAlias = Mapping[str, Limits]
"""The log offsets at which each dataset is asked."""


@attrs.frozen
class _Group:
    """Rows of the spine that are answered together: each instant asks at offsets of its own."""

    limits: Mapping[int, LimitsOf]
    rows: tuple[int, ...]

    def at(self, instant: int) -> LimitsOf:
        """Give the offsets of an instant; another one's are known if all have the same.

        Raises:
            _ManyOffsetsError: An author's look-up is of an instant that nobody asked about.
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
        """Divide a group so that each has one set of offsets."""
        parts: dict[int, list[int]] = {}
        for row in group.rows:
            parts.setdefault(id(group.limits[self.as_of[row]]), []).append(row)
        return tuple(
            _Group({self.as_of[row]: group.limits[self.as_of[row]] for row in rows}, tuple(rows))
            for rows in parts.values()
        )


def _limits(query: OfflineQuery, text: str) -> dict[str, Limits]:
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
    found: Mapping[Wanted, Found | None],
    workers: WorkerPool,
) -> tuple[list[dict[str, list[Cell]]], list[int], dict[str, set[Wanted]]]:
    """Execute the plan for each group, from what was looked up.

    Gives the answers, the spine's row of each, and what is missing.
    """
    order: list[int] = []
    answers: list[dict[str, list[Cell]]] = []
    missing: dict[str, set[Wanted]] = {}
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
    found: Mapping[Wanted, Found | None],
    missing: dict[str, set[Wanted]],
    plan: DatasetPlan,
    keys: Sequence[tuple[Cell, ...]],
    as_of: Sequence[int],
) -> list[Found | None]:
    wanted = [
        Wanted(plan.name, tuple(key), at, group.at(at)[plan.name])
        for key, at in zip(keys, as_of, strict=True)
    ]
    absent = {one for one in wanted if one not in found}
    if absent:
        missing.setdefault(plan.name, set()).update(absent)
        raise _NotLookedUp
    return [found[one] for one in wanted]


def look_up(
    session: SparkSession, dataset: OfflineDataset, wanted: Sequence[Wanted]
) -> dict[Wanted, Found | None]:
    """Look up keys as of instants at log offsets, in one Spark job."""
    log = dataset.plan.log
    spec = IndexSpec(log=log, aggregates=dataset.plan.aggregates, ladder_us=dataset.plan.ladder_us)
    answer = functools.partial(answer_bucket, json.dumps(to_plain(spec)))
    buckets = (
        _bucketed(_spine_frame(session, dataset.plan, wanted), dataset.plan)
        .groupBy("bucket")
        .cogroup(_bucketed(_history(session, dataset), dataset.plan).groupBy("bucket"))
    )
    answered = buckets.applyInArrow(answer, OUTPUT).toArrow()
    found: dict[Wanted, Found | None] = {}
    for row in answered.to_pylist():
        values = tuple(_tupled(cell) for cell in _UNPACK.decode(row["cells"]))
        found[wanted[row["row"]]] = (
            Found(values=values, event_time=row["event_time"]) if row["found"] else None
        )
    return found


def _spine_frame(session: SparkSession, plan: DatasetPlan, wanted: Sequence[Wanted]) -> DataFrame:
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
    bucket = sf.pmod(sf.hash(*keys), sf.lit(BUCKETS))
    # Both sides alike, so that Spark need not bring them into the one partition of its default.
    return frame.withColumn("bucket", bucket).repartition(BUCKETS, "bucket")


def answer_bucket(spec_json: str, spine: pa.Table, history: pa.Table) -> pa.Table:
    """Answer the look-ups of one bucket of keys; runs in Spark's Python workers."""
    spec = from_plain(json.loads(spec_json))
    if not isinstance(spec, IndexSpec):
        raise TypeError("not the spec of an index")
    if spine.num_rows == 0:
        return _ARROW_OUTPUT.empty_table()
    schema = fact_schema(spec.log)
    rows = to_rows(spec.log, history.select(schema.names).cast(schema))
    keys = list(
        zip(*(_key_cells(spec, spine, place) for place in range(len(spec.log.keys))), strict=True)
    )
    as_of = spine.column("as_of").to_pylist()
    answers: list[Found | None] = [None] * spine.num_rows
    with tempfile.TemporaryDirectory() as directory:
        playback = Playback(spec, rows, directory=Path(directory))
        for limits, places in _by_limits(spine.column("limits").to_pylist()):
            playback.go_to(limits)
            found = playback.lookup([keys[p] for p in places], [as_of[p] for p in places])
            for place, one in zip(places, found, strict=True):
                answers[place] = one
        playback.close()
    return pa.table(
        {
            "row": spine.column("row"),
            "found": pa.array([one is not None for one in answers]),
            "event_time": pa.array(
                [one.event_time if one else None for one in answers], pa.int64()
            ),
            "cells": pa.array([_PACK.encode(one.values if one else ()) for one in answers]),
        }
    ).cast(_ARROW_OUTPUT)


def _key_cells(spec: IndexSpec, spine: pa.Table, place: int) -> list[Cell]:
    column = spec.log.keys[place]
    found: list[Cell] = (
        spine.column(f"k_{column.name}")
        .cast(fact_schema(spec.log).field(f"k_{column.name}").type)
        .to_pylist()
    )
    return found


def _by_limits(texts: Sequence[Limits]) -> list[tuple[dict[int, int] | None, list[int]]]:
    """Group places by their offsets, the earliest first, those without any last."""
    by_text: dict[Limits, list[int]] = {}
    for place, text in enumerate(texts):
        by_text.setdefault(text, []).append(place)
    parsed = [
        ({int(p): int(o) for p, o in json.loads(text).items()} if text else None, places)
        for text, places in by_text.items()
    ]
    return sorted(parsed, key=lambda one: (one[0] is None, sum((one[0] or {}).values())))


class Playback:
    """An index that is brought to given log offsets, forward as long as that is possible."""

    def __init__(self, spec: IndexSpec, rows: Sequence[LogRow], *, directory: Path) -> None:
        """Begin with an empty index below `directory`."""
        self._spec = spec
        self._directory = directory
        self._rows: dict[int, list[LogRow]] = {}
        for row in sorted(rows, key=lambda r: (r.partition, r.offset)):
            self._rows.setdefault(row.partition, []).append(row)
        self._index = self._fresh(0)
        self._applied = dict.fromkeys(self._rows, 0)
        self._round = 0

    def _fresh(self, number: int) -> LmdbIndex:
        path = self._directory / str(number)
        path.mkdir()
        return LmdbIndex(path, self._spec)

    def go_to(self, limits: Mapping[int, int] | None) -> None:
        """Apply exactly the facts below these next offsets; None is all of them."""
        ends = {
            partition: len(rows) if limits is None else _end(rows, limits.get(partition, 0))
            for partition, rows in self._rows.items()
        }
        if any(ends[p] < self._applied[p] for p in ends):
            self._index.close()
            self._round += 1
            self._index = self._fresh(self._round)
            self._applied = dict.fromkeys(self._rows, 0)
        facts = [
            row.fact for p, rows in self._rows.items() for row in rows[self._applied[p] : ends[p]]
        ]
        if facts:
            self._index.apply(facts, offsets={}, epoch=1)
        self._applied = ends

    def lookup(self, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]) -> list[Found | None]:
        """Look up as the online reader does."""
        with self._index.read() as reader:
            return reader.lookup(keys, as_of)

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()


def _end(rows: Sequence[LogRow], limit: int) -> int:
    """Give how many rows, sorted by offset, stand below a next offset."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if rows[middle].offset < limit:
            low = middle + 1
        else:
            high = middle
    return low


def _tupled(cell: object) -> Cell:
    match cell:
        case list():
            return tuple(_tupled(item) for item in cell)
        case dict():
            return {str(name): _tupled(item) for name, item in cell.items()}
        case None | bool() | int() | float() | str() | bytes():
            return cell
        case _:
            raise TypeError(f"{type(cell).__name__} is no cell")
