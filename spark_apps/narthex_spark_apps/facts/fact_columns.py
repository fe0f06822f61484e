"""Facts of a dataset log as Spark columns, read from records and rendered as records."""

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro, to_avro

from narthex._formats import empty_cell
from narthex._formats.avro import avro_schema
from narthex._ir import Column, LogShape, LogSpec, inner
from narthex_spark_apps.facts.column_types import spark_type
from narthex_spark_apps.facts.identities import key_bytes

ROW_ID = "row_id"
VERSION = "version"
EVENT_TIME = "event_time"
ALIVE = "alive"


@attrs.frozen(kw_only=True)
class SparkFactColumns:
    """The columns of a fact: its identity, and a column for each public name."""

    row_id: SparkColumn
    version: SparkColumn
    event_time: SparkColumn
    alive: SparkColumn
    columns: dict[str, SparkColumn] = attrs.field(hash=False)


def read_facts(records: DataFrame, log: LogSpec) -> DataFrame:
    """Decode the `value` of each record to columns row_id, version, event_time, alive, k_*, v_*."""
    decoded = records.select(
        from_avro(sf.col("value"), avro_schema(log), {"mode": "FAILFAST"}).alias("fact")
    )
    return decoded.select("fact.*")


def public_columns(log: LogSpec) -> dict[str, SparkColumn]:
    """Return the columns of `read_facts` by their public names."""
    named = {column.name: sf.col(f"`k_{column.name}`") for column in log.keys}
    named |= {column.name: sf.col(f"`v_{column.name}`") for column in log.values}
    named[log.time_field] = sf.col(EVENT_TIME)
    return named


def fact_record(fact: SparkFactColumns, log: LogSpec) -> tuple[SparkColumn, SparkColumn]:
    """Render a fact as the key and the value of a record of the log."""
    keys = [_present(column, fact.columns[column.name]) for column in log.keys]
    values = [
        sf.when(fact.alive, _typed(column, fact.columns[column.name])) for column in log.values
    ]
    members = [
        fact.row_id.alias(ROW_ID),
        fact.version.alias(VERSION),
        fact.event_time.cast("long").alias(EVENT_TIME),
        fact.alive.alias(ALIVE),
        *(cell.alias(f"k_{column.name}") for column, cell in zip(log.keys, keys, strict=True)),
        *(cell.alias(f"v_{column.name}") for column, cell in zip(log.values, values, strict=True)),
    ]
    value = to_avro(sf.struct(*members), avro_schema(log))
    if log.shape is LogShape.ROWS:
        return fact.row_id, value
    return key_bytes(log.keys, keys), value


def _typed(column: Column, cell: SparkColumn) -> SparkColumn:
    return cell.cast(spark_type(column.type))


def _present(column: Column, cell: SparkColumn) -> SparkColumn:
    """Return the cell of a key; a null in a tombstone becomes a default that the schema allows."""
    typed = _typed(column, cell)
    empty = empty_cell(inner(column.type))
    if isinstance(empty, tuple | dict):
        return typed
    default = sf.lit(bytearray(empty) if isinstance(empty, bytes) else empty)
    return sf.coalesce(typed, default.cast(spark_type(column.type)))
