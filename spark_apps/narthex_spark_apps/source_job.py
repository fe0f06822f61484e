"""Source jobs: raw rows of a topic become facts of a dataset log, or go to quarantine.

Each raw row becomes at most one record, whose `topic` says where it goes: the log, the quarantine,
or nowhere (the author's `where` left it out). So one Kafka sink writes both, also in real time.
"""

import json

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from narthex.assets import LogShape, ResolvedAsset, SourceJobSpec
from narthex.entities import Cdc, Files, KafkaTopic
from narthex.records import to_plain
from narthex.settings import Settings
from narthex_spark_apps.admission_columns import (
    LEFT_OUT,
    NOW,
    REFUSALS,
    REFUSED,
    ROW,
    Admission,
)
from narthex_spark_apps.admitted_rows import OUTPUT
from narthex_spark_apps.fact_columns import FactColumns, fact_record
from narthex_spark_apps.identities import binary, key_bytes, keyed_row_id, position
from narthex_spark_apps.kafka_io import (
    Broker,
    Run,
    in_micro_batches,
    read_topics,
    write_records,
)
from narthex_spark_apps.topic_rows import TopicRun

COUNTS = "counts"
_MALFORMED = "the record is no JSON object"


@attrs.frozen(kw_only=True)
class SourceJob:
    """A source job with its physical names."""

    asset: ResolvedAsset
    spec: SourceJobSpec

    @property
    def output(self) -> str:
        """The dataset's log."""
        return self.asset.need("output").physical_name

    @property
    def quarantine(self) -> str:
        """Where refused rows go."""
        return self.asset.need("quarantine").physical_name

    def topic(self) -> str:
        """Give the topic that it reads: an ingest topic, or the author's."""
        connector = self.spec.source.connector
        if isinstance(connector, KafkaTopic):
            return connector.topic
        return self.asset.need("input").physical_name


def start_source(
    session: SparkSession, job: SourceJob, *, settings: Settings, run: Run, reads: Broker
) -> StreamingQuery:
    """Start a source job that reads a topic of the broker `reads`; facts go to the platform's.

    Rows are admitted in micro-batches of Python: docs/decisions/0006.
    """
    if isinstance(job.spec.source.connector, Files):
        raise TypeError("files are read by `narthex_spark_apps.file_source`")
    calls = not isinstance(job.spec.source.connector, KafkaTopic)
    run = in_micro_batches(run)
    records = read_topics(session, reads, [job.topic()], run=run)
    written = _admitted_in_python(records, job, calls=calls)
    return write_records(written, Broker(bootstrap=settings.kafka), run=run)


def _admitted_in_python(records: DataFrame, job: SourceJob, *, calls: bool) -> DataFrame:
    stage = TopicRun(
        spec=json.dumps(to_plain(job.spec)),
        output=job.output,
        quarantine=job.quarantine,
        calls=calls,
    )
    rows = records.select("partition", "offset", _written_at(), "value")
    rendered = rows.mapInArrow(stage, OUTPUT).observe(
        COUNTS,
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(sf.col("topic") == job.quarantine).alias("quarantined"),
        sf.count_if(sf.col("topic").isNull()).alias("left_out"),
    )
    return rendered.where(sf.col("topic").isNotNull())


def _rows_of_calls(records: DataFrame) -> DataFrame:
    """Take the rows out of accepted `log` calls; a row's ordinal is its place in its call."""
    value = sf.col("value").cast("string")
    rows = sf.from_json(value, "rows array<string>")["rows"]
    # What the server never writes is one row that is refused, not none.
    payloads = sf.coalesce(rows, sf.array(value))
    placed = sf.posexplode(payloads).alias("ordinal", "payload")
    return records.select("partition", "offset", _written_at(), placed)


def _one_row_a_record(records: DataFrame) -> DataFrame:
    value = sf.coalesce(sf.col("value").cast("string"), sf.lit(""))
    return records.select(
        "partition",
        "offset",
        _written_at(),
        sf.lit(0).alias("ordinal"),
        value.alias("payload"),
    )


def _written_at() -> SparkColumn:
    # The instant that the broker gave the record: a replay of the log sees the same.
    return sf.unix_micros(sf.col("timestamp")).alias(NOW)


def parsed(rows: DataFrame) -> DataFrame:
    """Read each JSON `payload` as a variant `row`; null if it is no object."""
    found = rows.withColumn("any", sf.try_parse_json("payload"))
    is_object = sf.schema_of_variant("any").startswith("OBJECT")
    return found.withColumn(ROW, sf.when(is_object, sf.col("any"))).drop("any")


def source_records(
    rows: DataFrame, job: SourceJob, *, source_id: str, counts: str | Observation = COUNTS
) -> DataFrame:
    """Turn raw rows into records (topic, key, value), counting what becomes of them.

    `rows` has columns payload, partition, offset, ordinal, now and, where rows are no JSON, the
    variant `row`.
    """
    spec = job.spec
    if ROW not in rows.columns:
        rows = parsed(rows)
    admitted = Admission(rows, spec.source, spec.schema).admit()
    malformed = sf.col(ROW).isNull()
    refused = malformed | (~sf.col(LEFT_OUT) & sf.col(REFUSED))
    left_out = ~malformed & sf.col(LEFT_OUT)
    instant = sf.col(f"f_{spec.schema.timestamp}")
    marked = admitted.withColumns({"refused": refused, "is_left_out": left_out}).observe(
        counts,
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(sf.col("refused")).alias("quarantined"),
        sf.count_if(sf.col("is_left_out")).alias("left_out"),
        sf.max(sf.when(~sf.col("refused") & ~sf.col("is_left_out"), instant)).alias("newest"),
    )
    key, value = _fact_of(spec, source_id)
    topic = sf.when(sf.col("refused"), sf.lit(job.quarantine)).otherwise(sf.lit(job.output))
    return marked.where(~sf.col("is_left_out")).select(
        topic.alias("topic"),
        sf.when(sf.col("refused"), _row_position(source_id)).otherwise(key).alias("key"),
        sf.when(sf.col("refused"), _refusal(spec)).otherwise(value).alias("value"),
    )


def _row_position(source_id: str) -> SparkColumn:
    return position(source_id, sf.col("partition"), sf.col("offset"), sf.col("ordinal"))


def _fact_of(spec: SourceJobSpec, source_id: str) -> tuple[SparkColumn, SparkColumn]:
    columns = {field.name: sf.col(f"f_{field.name}") for field in spec.schema.fields}
    instant = columns[spec.log.time_field]
    place = _row_position(source_id)
    if spec.log.shape is LogShape.KEYED or spec.source.cdc is Cdc.UPSERT:
        cells = [columns[column.name] for column in spec.log.keys]
        row_id, version = keyed_row_id(key_bytes(spec.log.keys, cells), instant), place
    else:
        row_id, version = place, binary(b"\x00")
    fact = FactColumns(
        row_id=row_id, version=version, event_time=instant, alive=sf.lit(True), columns=columns
    )
    return fact_record(fact, spec.log)


def _refusal(spec: SourceJobSpec) -> SparkColumn:
    first = sf.get(REFUSALS, sf.lit(0))
    malformed = sf.col(ROW).isNull()
    reasons = sf.array_join(
        sf.transform(
            REFUSALS, lambda one: sf.concat(sf.lit("`"), one["field"], sf.lit("`: "), one["reason"])
        ),
        "; ",
    )
    described = sf.struct(
        sf.col("payload"),
        sf.when(malformed, sf.lit(_MALFORMED)).otherwise(reasons).alias("reason"),
        sf.lit(spec.source_id).alias("source"),
        sf.col("partition"),
        sf.col("offset"),
        sf.col("ordinal"),
        sf.when(~malformed, first["field"]).alias("field"),
    )
    return sf.encode(sf.to_json(described, {"ignoreNullFields": "false"}), "UTF-8")
