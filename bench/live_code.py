"""Compare carriers of live author code: freshness, CPU and backlogs; print a table and JSON.

    python -m bench.live_code [--rates 50 500] [--seconds 20] [--backlog 20000]

Five jobs assign a column by author code, in the confined workers of the platform. Rows arrive in an
open loop; a row is fresh when a consumer of the output log receives it. Afterwards, rows are sent
at once, to measure how fast a backlog drains. The carriers:

- `process`: a plain process with the stages of the platform, outside Spark.
- `task`: the same stages in a task of Spark that never ends.
- `function`: a function in one query of Spark in Real-time Mode, which handles row by row.

Each carrier has a process, a broker and a Spark session of its own. An answer that is missing or
wrong voids the figures.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from bench.broker_jobs import broker_settings
from bench.coded_jobs import JOBS, LOG, PARTITIONS, RowFunction, job_assets
from bench.figures import load_average, quantile, report_result, show
from bench.running import say
from narthex._formats.avro import fact_codec
from narthex._ir import Fact, RowId, Trigger, Version
from narthex.settings import Settings
from narthex_spark_apps.jobs.stage_runner import StageRunner
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics, write_records
from narthex_spark_apps.platform.session import open_session
from narthex_spark_apps.supervision.runner import JobLoop
from narthex_spark_apps.supervision.runner_messages import DesiredAssignments, WorkAssignment
from narthex_stack.servers.local_servers import kafka_broker
from narthex_stores import platform_broker

CARRIERS = ("process", "task", "function")
WARM_UP_S, WITHIN_S, TICK_S = 10.0, 90.0, 0.005
REAL_TIME = {
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "8",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "1",
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
"""Spark's settings with which a function receives each row when it arrives."""


@attrs.frozen
class StandingStages:
    """The stages of all jobs, until a file appears.

    Attributes:
        stop: The file.
    """

    settings: Settings
    stop: Path

    def __call__(self, _rows: Iterable[int]) -> Iterator[int]:
        """Run; the parameter and the result are those of a task of Spark."""
        loop = JobLoop(StageRunner(self.settings), _ignore)
        assignments = [WorkAssignment(asset=asset, epoch=1, generation=1) for asset in job_assets()]
        loop.turn(DesiredAssignments(assignments=tuple(assignments)))
        while not self.stop.exists():
            loop.turn(None)
            time.sleep(0.2)
        return iter(())


def _ignore(_message: object) -> None:
    """Drop a report of the stages."""


@contextmanager
def carried(carrier: str, settings: Settings) -> Iterator[None]:
    """Run all jobs by a carrier."""
    # Spark's Python workers import this package.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    if carrier == "function":
        session = open_session(settings, name="bench", extra=REAL_TIME)
        query = _start_function(session, settings)
        yield
        query.stop()
        session.stop()
        return
    stages = StandingStages(settings, settings.home / "stop")
    if carrier == "process":
        process = multiprocessing.get_context("spawn").Process(target=stages, args=((),))
        process.start()
        yield
        stages.stop.touch()
        process.join()
        return
    session = open_session(settings, name="bench")
    tasks = session.sparkContext.parallelize([0], 1).mapPartitions(stages)
    thread = threading.Thread(target=tasks.count, daemon=True)
    thread.start()
    yield
    stages.stop.touch()
    thread.join()
    session.stop()


def _start_function(session: SparkSession, settings: Settings) -> StreamingQuery:
    broker = platform_broker(settings)
    run = JobRun(
        name="bench", trigger=Trigger.REAL_TIME, checkpoint=str(settings.home / "checkpoint")
    )
    topics = [asset.need("input:Clicks").physical_name for asset in job_assets()]
    records = read_topics(session, broker, topics, run=run)
    # Two workers: each partition of each topic would have a worker of its own.
    records = records.repartition(PARTITIONS, sf.col("topic"), sf.col("partition"))
    function = RowFunction(settings.without_secrets())
    returned = "array<struct<topic: string, key: binary, value: binary>>"
    call = sf.udf(function, returned, useArrow=False).asNondeterministic()
    rows = records.select(sf.explode(call("topic", "value")).alias("record"))
    return write_records(rows.select("record.*"), broker, run=run)


@attrs.define
class Rows:
    """The rows that were sent, and when the output of each one was received."""

    bootstrap: str
    sent: list[float] = attrs.field(factory=list)
    received: dict[int, float] = attrs.field(factory=dict)
    wrong: int = 0
    _ended: threading.Event = attrs.field(factory=threading.Event)
    _producer: Producer = attrs.field(init=False)

    @_producer.default
    def _open_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1})

    def send(self) -> None:
        """Send the next row."""
        number = len(self.sent)
        fact = Fact(
            row_id=RowId(number.to_bytes(8, "big")),
            version=Version(b"\x00"),
            event_time=number,
            key=(),
            values=(number,),
        )
        self.sent.append(time.monotonic())
        value, key = fact_codec(LOG).encode(fact), str(number)
        self._producer.produce(f"in{number % JOBS + 1}", value, key)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all rows are stored."""
        self._producer.flush()

    def receive(self) -> None:
        """Receive output until `end`."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 5}
        )
        consumer.assign(
            [TopicPartition(f"out{n}", p, 0) for n in range(1, JOBS + 1) for p in range(PARTITIONS)]
        )
        codec = fact_codec(LOG)
        while not self._ended.is_set():
            for message in consumer.consume(500, 0.02):
                fact = codec.decode(message.value() or b"")
                number = int.from_bytes(fact.row_id, "big")
                self.wrong += fact.values != (2 * number,)
                self.received.setdefault(number, time.monotonic())
        consumer.close()

    def wait(self) -> bool:
        """Wait until the output of all rows was received; return whether it was."""
        ends_at = time.monotonic() + WITHIN_S
        while len(self.received) < len(self.sent) and time.monotonic() < ends_at:
            time.sleep(TICK_S)
        return len(self.received) == len(self.sent)

    def end(self) -> None:
        """Stop receiving."""
        self._ended.set()


def measure(carrier: str, rate: float, seconds: float, backlog: int) -> dict[str, object]:
    """Run one carrier on a broker of its own; return its figures."""
    with (
        tempfile.TemporaryDirectory(prefix="narthex-bench-") as name,
        kafka_broker(Path(name) / "broker") as bootstrap,
    ):
        settings = broker_settings(Path(name), bootstrap)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        names = [f"{side}{number}" for side in ("in", "out") for number in range(1, JOBS + 1)]
        for made in admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in names]).values():
            made.result(30)
        rows = Rows(bootstrap)
        threading.Thread(target=rows.receive, daemon=True).start()
        with carried(carrier, settings):
            figures = _freshness(rows, rate, seconds)
            began, before = time.monotonic(), len(rows.received)
            for _ in range(backlog):
                rows.send()
            rows.flush()
            is_complete = rows.wait()
            drained = (len(rows.received) - before) / (time.monotonic() - began)
        rows.end()
    return figures | {
        "carrier": carrier,
        "rate": rate,
        "drained_per_s": round(drained),
        "ok": is_complete and rows.wrong == 0,
    }


def _freshness(rows: Rows, rate: float, seconds: float) -> dict[str, object]:
    for _ in range(10 * JOBS):
        rows.send()
    rows.wait()
    _send_evenly(rows, rate, WARM_UP_S)
    measured, began, before = len(rows.sent), time.monotonic(), _cpu_s()
    _send_evenly(rows, rate, seconds)
    spent = (_cpu_s() - before) / (time.monotonic() - began)
    busy = load_average()
    rows.wait()
    late = [
        1000 * (rows.received.get(n, float("inf")) - rows.sent[n])
        for n in range(measured, len(rows.sent))
    ]
    figures: dict[str, object] = {
        f"p{p}_ms": round(quantile(late, p / 100), 1) for p in (50, 95, 99)
    }
    return figures | {"cores": round(spent, 2), "load_average": busy}


def _send_evenly(rows: Rows, rate: float, seconds: float) -> None:
    began, before = time.monotonic(), len(rows.sent)
    while (passed := time.monotonic() - began) < seconds:
        while len(rows.sent) - before < passed * rate:
            rows.send()
        time.sleep(TICK_S)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, without the broker."""
    spent = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            if "kafka.Kafka" not in process.cmdline():
                times = process.cpu_times()
                spent += times.user + times.system
        except psutil.Error:
            continue
    return spent


def main() -> int:
    """Run all carriers, one after the other; exit with 1 if an output is missing or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[50.0, 500.0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--backlog", type=int, default=20_000)
    parser.add_argument("--only", choices=CARRIERS, help="run one carrier, and print JSON")
    asked = parser.parse_args()
    if asked.only:
        found = measure(asked.only, asked.rates[0], asked.seconds, asked.backlog)
        print(json.dumps(found))
        return 0 if found["ok"] else 1
    results = []
    for rate in asked.rates:
        for carrier in CARRIERS:
            say(f"{carrier}, {rate:g} rows/s")
            options = ["--rates", str(rate), "--seconds", str(asked.seconds)]
            options += ["--backlog", str(asked.backlog), "--only", carrier]
            command = [sys.executable, "-m", "bench.live_code", *options]
            ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
            results.append(json.loads(ran.stdout.splitlines()[-1]))
    names = ("carrier", "rate", "p50_ms", "p95_ms", "p99_ms", "cores", "drained_per_s", "ok")
    show("live author code", names, [[str(result[name]) for name in names] for result in results])
    ok = all(result["ok"] for result in results)
    outcome = "ok" if ok else "failed"
    report_result("live_code", {"bench": "live_code", "result": outcome, "carriers": results})
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
