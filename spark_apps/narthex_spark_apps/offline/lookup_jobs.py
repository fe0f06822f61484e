# mypy: disable-error-code="arg-type,misc,dict-item"
"""Lookups of a dataset as of instants at log offsets, in one Spark job.

Spark joins the lookups with the dataset's history, in buckets of keys. In a bucket the facts are
applied to an index in the order of their log, and each lookup is answered when the index contains
exactly its offsets. So an offline answer equals the online answer, by the same code.
"""

import functools
import json
from collections.abc import Mapping, Sequence

import attrs
import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from narthex._base import to_plain
from narthex._formats.arrow import array_of
from narthex._ir import Cell, DatasetPlan, LogShape
from narthex_spark_apps.offline.historical_lookup import OUTPUT, ReplayLimit, answer_bucket
from narthex_spark_apps.offline.pins import PinnedDataset
from narthex_spark_apps.offline.watermarks import newest_rows
from narthex_stores import LookupResult, fact_schema

BUCKETS = 8
_UNPACK = msgspec.msgpack.Decoder()


@attrs.frozen
class OfflineLookup:
    """One lookup: of a dataset, under a key, as of an instant, at log offsets."""

    dataset: str
    key: tuple[Cell, ...]
    as_of: int
    limits: ReplayLimit


def sorted_lookups(wanted: set[OfflineLookup]) -> list[OfflineLookup]:
    """Sort lookups in an order that does not depend on hashes."""
    return sorted(wanted, key=lambda w: (w.limits, w.as_of, repr(w.key)))


def look_up(
    session: SparkSession, pinned: PinnedDataset, wanted: Sequence[OfflineLookup]
) -> dict[OfflineLookup, LookupResult | None]:
    """Look up keys as of instants at log offsets, in one Spark job."""
    plan = pinned.dataset.plan
    answer = functools.partial(answer_bucket, json.dumps(to_plain(plan.index)))
    states = history_frame(session, pinned)
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


def history_frame(session: SparkSession, pinned: PinnedDataset) -> DataFrame:
    """Return the fact states of a pinned dataset."""
    if pinned.history.files:
        return session.read.parquet(*pinned.history.files)
    return session.createDataFrame(fact_schema(pinned.dataset.plan.log).empty_table())


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
