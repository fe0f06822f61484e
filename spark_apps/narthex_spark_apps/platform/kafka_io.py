"""Topics as streams of rows and rows as records of topics."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from narthex._ir import Trigger
from narthex_stores import Broker

StartOffsets: TypeAlias = tuple[tuple[str, int, int], ...]
"""Triples (topic, partition, next offset to read); empty reads from the beginning."""

REAL_TIME_S = 10
"""The shortest interval of Real-time Mode; after it, a query reports progress and is replanned."""

PLANNING_CPU_S = 0.2
"""The CPU time that planning one interval of one job takes, about."""

PLANNED_EACH_S = 2.5
"""Growth of the intervals with each job, in seconds."""


LONGEST_S = 300.0
"""The mean interval from which on intervals no longer grow: after a crash, a job reads again, and
an observer waits, for about as long."""

CROWDED_JOBS = round(LONGEST_S / PLANNED_EACH_S)
"""More real-time jobs than these take more CPU for planning with each job."""


def interval_s(jobs: int, number: int) -> int:
    """Return the trigger interval of a job, for this number of real-time jobs.

    Planning up to `CROWDED_JOBS` jobs takes a fixed share of a CPU, about a twelfth; more take as
    much more as there are more. Lengths differ by the job's number, so that jobs that started
    together do not end together: from three fifths to seven fifths, spread like the multiples of
    the golden ratio. With a longer interval more rows are read again after a crash, which is
    harmless but takes a moment.
    """
    mean_s = min(jobs * PLANNED_EACH_S, LONGEST_S)
    return max(REAL_TIME_S, round(mean_s * (0.6 + 0.8 * (number * _GOLDEN % 1.0))))


def planning_share(jobs: int) -> float:
    """Return the CPUs that a driver takes for planning the intervals of its real-time jobs."""
    return PLANNING_CPU_S * jobs / max(REAL_TIME_S, min(jobs * PLANNED_EACH_S, LONGEST_S))


_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_MAX_RECORD_BYTES = 32 * 1024 * 1024
_MICRO_BATCH_ROWS = 50_000
_BACKFILL_ROWS = 500_000


def connector_options(broker: Broker) -> dict[str, str]:
    """Return the address and authentication options of Spark's Kafka connector."""
    options = {"bootstrap.servers": broker.bootstrap}
    if broker.protocol != "PLAINTEXT":
        options["security.protocol"] = broker.protocol
    if broker.protocol.startswith("SASL"):
        options["sasl.mechanism"] = broker.mechanism
        options["sasl.jaas.config"] = _login(broker)
    if broker.protocol.endswith("SSL") and broker.ca_file:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": broker.ca_file}
    return {f"kafka.{name}": value for name, value in options.items()}


def _login(broker: Broker) -> str:
    kind = "plain.Plain" if broker.mechanism == "PLAIN" else "scram.Scram"
    username, password = (
        part.replace("\\", "\\\\").replace('"', '\\"')
        for part in (broker.username, broker.password)
    )
    module = f"org.apache.kafka.common.security.{kind}LoginModule"
    return f'{module} required username="{username}" password="{password}";'


@attrs.frozen(kw_only=True)
class JobRun:
    """The options of one run of a job.

    Attributes:
        checkpoint: A directory that only this kind of run uses.
        starts: Start offsets for a checkpoint that has not started yet.
        interval_s: The length of the intervals of Real-time Mode.
    """

    name: str
    trigger: Trigger
    checkpoint: str
    starts: StartOffsets = ()
    interval_s: int = REAL_TIME_S


def in_micro_batches(run: JobRun) -> JobRun:
    """Return the run without Real-time Mode, as a plan with Python needs; bounded stays bounded."""
    if run.trigger is Trigger.BOUNDED:
        return run
    return attrs.evolve(run, trigger=Trigger.MICRO_BATCH)


def read_topics(
    session: SparkSession, broker: Broker, topics: Iterable[str], *, run: JobRun
) -> DataFrame:
    """Read topics with columns key, value, topic, partition and offset."""
    names = sorted(topics)
    rows = _BACKFILL_ROWS if run.trigger is Trigger.BOUNDED else _MICRO_BATCH_ROWS
    reader = (
        session.readStream.format("kafka")
        .options(**connector_options(broker))
        .option("subscribe", ",".join(names))
        .option("startingOffsets", _starting(names, run.starts))
        .option("failOnDataLoss", "false")
        .option("kafka.max.partition.fetch.bytes", str(_MAX_RECORD_BYTES))
    )
    if run.trigger is not Trigger.REAL_TIME:
        reader = reader.option("maxOffsetsPerTrigger", str(rows))
    return reader.load()


def _starting(topics: Iterable[str], starts: StartOffsets) -> str:
    named: dict[str, dict[str, int]] = {}
    for topic, partition, offset in starts:
        if topic in set(topics):
            named.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(named) if named else "earliest"


def write_records(records: DataFrame, broker: Broker, *, run: JobRun) -> StreamingQuery:
    """Start writing a stream of (topic, key, value) to Kafka, at least once."""
    writer = (
        records.writeStream.queryName(run.name)
        .format("kafka")
        .outputMode("update" if run.trigger is Trigger.REAL_TIME else "append")
        .options(**connector_options(broker))
        .options(**_producer(in_bulk=run.trigger is Trigger.BOUNDED))
        .option("checkpointLocation", run.checkpoint)
    )
    match run.trigger:
        case Trigger.REAL_TIME:
            return writer.trigger(realTime=f"{run.interval_s} seconds").start()
        case Trigger.MICRO_BATCH | Trigger.STAGE | Trigger.STATEFUL:
            return writer.trigger(processingTime="200 milliseconds").start()
        case Trigger.BOUNDED:
            return writer.trigger(availableNow=True).start()


def write_batch(records: DataFrame, broker: Broker) -> None:
    """Write a bounded frame of (topic, key, value) to Kafka and wait until it is written."""
    records.write.format("kafka").options(**connector_options(broker)).options(
        **_producer(in_bulk=True)
    ).save()


def _producer(*, in_bulk: bool) -> Mapping[str, str]:
    # In bulk, records wait to be batched: one large request is cheaper than many small ones.
    bulk = {"kafka.linger.ms": "50", "kafka.batch.size": "524288", "kafka.compression.type": "lz4"}
    return {
        "kafka.max.request.size": str(_MAX_RECORD_BYTES),
        "kafka.buffer.memory": str(2 * _MAX_RECORD_BYTES),
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        **(bulk if in_bulk else {}),
    }
