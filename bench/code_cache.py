"""Measure the compiled code of a driver's JVM while queries are planned thousands of times.

    python -m bench.code_cache [--plans 10000] [--queries 8]

The same expression pipeline runs in several streaming queries of one driver, with its own options.
Each micro-batch is planned and compiled anew, as each interval of a live job is. Rows arrive all
the time, so that each batch has some. The bench fails if the JVM uses more code at the end than a
tenth more than when a third of the plans were made, or more than the share at which a supervisor
replaces a driver.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql.streaming import StreamingQuery

from bench.broker_jobs import broker_settings, create_topics, job_of
from bench.figures import load_average, report_result, show
from bench.payments import DATASETS
from bench.running import say
from narthex._formats.avro import fact_codec
from narthex._ir import Fact, RowId, Trigger, Version
from narthex.settings import Settings
from narthex_spark_apps.jobs.engine_watch import read_memory
from narthex_spark_apps.pipelines.spark_plan import PipelineJob, start_pipeline
from narthex_spark_apps.platform.kafka_io import JobRun
from narthex_spark_apps.platform.session import open_session
from narthex_spark_apps.supervision.runner_messages import CODE_CACHE_SHARE, JvmMemory
from narthex_stack.servers.local_servers import kafka_broker
from narthex_stores import platform_broker

DATASET = "BenchKept"
TICK_S = 0.05
SAMPLES = 10
GROWTH = 1.1
MIB = 1 << 20

Sample = tuple[int, JvmMemory]
"""How many plans were made, and what the JVM used."""


def plans_of(queries: Sequence[StreamingQuery]) -> int:
    """Return the number of batches that queries have planned."""
    progress = [query.lastProgress for query in queries]
    return sum(0 if one is None else int(one["batchId"]) + 1 for one in progress)


def measure(settings: Settings, job: PipelineJob, *, plans: int, queries: int) -> list[Sample]:
    """Run the queries until they were planned so often; return the samples at even distances."""
    session = open_session(settings, name="code cache")
    running = [
        start_pipeline(
            session,
            job,
            settings=settings,
            run=JobRun(
                name=f"plans {number}",
                trigger=Trigger.MICRO_BATCH,
                checkpoint=str(settings.checkpoint_dir / str(number)),
            ),
        )
        for number in range(queries)
    ]
    producer = Producer({**platform_broker(settings).config()})
    payment = Fact(
        row_id=RowId(b"payment"), version=Version(b"\x00"), event_time=0, key=(), values=("ann", 1)
    )
    record = fact_codec(job.spec.inputs[0].log).encode(payment)
    samples: list[Sample] = []
    while len(samples) <= SAMPLES:
        producer.produce(job.input_topic, value=record, key=payment.row_id)
        producer.poll(0)
        time.sleep(TICK_S)
        failed = [query.exception() for query in running if query.exception() is not None]
        if failed:
            raise SystemExit(f"a query failed: {failed[0]}")
        made = plans_of(running)
        if made >= plans * len(samples) // SAMPLES:
            samples.append((made, read_memory(session.sparkContext)))
            say(f"{made} plans, {samples[-1][1].code_cache / MIB:.1f} MiB of code")
    for query in running:
        query.stop()
    session.stop()
    return samples


def main() -> int:
    """Run; exit with 1 if the code grows for ever, or is too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=8)
    asked = parser.parse_args()
    busy = load_average()
    with tempfile.TemporaryDirectory() as name, kafka_broker(Path(name) / "broker") as bootstrap:
        settings = broker_settings(Path(name), bootstrap)
        job = job_of(DATASETS, DATASET)
        create_topics(bootstrap, [job])
        samples = measure(settings, job, plans=asked.plans, queries=asked.queries)
    limit = samples[-1][1].code_cache_limit
    used = [memory.code_cache for _, memory in samples]
    ok = used[-1] <= GROWTH * used[SAMPLES // 3] and used[-1] < CODE_CACHE_SHARE * limit
    show(
        f"memory of a driver's JVM, MiB; {limit // MIB} for code",
        ("plans", "code", "metaspace", "heap"),
        [
            (str(made), *(f"{n / MIB:.1f}" for n in (m.code_cache, m.metaspace, m.heap)))
            for made, m in samples
        ],
    )
    report_result(
        "code_cache",
        {
            "bench": "code_cache",
            "result": "ok" if ok else "failed",
            "load_average": busy,
            "queries": asked.queries,
            "plans": [made for made, _ in samples],
            "code_bytes": used,
            "limit_bytes": limit,
        },
    )
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
