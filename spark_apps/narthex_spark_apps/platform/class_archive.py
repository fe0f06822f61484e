"""Archive the classes that drivers load, once, in a separate program.

Run as `python -m narthex_spark_apps.platform.class_archive`.
A driver with an archive starts in half the time, which matters after every crash. The archive is
written by a JVM that has run the queries of a driver: one in real time, and one bounded, over a
topic that exists only while this program runs.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from narthex._base import Backoff
from narthex._ir import Trigger
from narthex.settings import Settings, load_settings
from narthex_spark_apps.platform.jvm import OPTIONS, archive_of
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics, write_records
from narthex_spark_apps.platform.session import open_session
from narthex_stores import Broker, EndOffsetReader, platform_broker

log = structlog.get_logger()

ROWS = 20
WITHIN_S = 60.0
DUMP_WITHIN_S = 120.0
_POLL = Backoff(first_s=0.1, greatest_s=0.2)


class NotArchivedError(RuntimeError):
    """The queries that should load the classes did not run."""


def write_archive(settings: Settings) -> Path:
    """Write the archive if it does not exist; return its path.

    If several processes write it at once, the last one wins. A Java that writes no archive leaves
    an empty file, so that no later start tries again.

    Raises:
        NotArchivedError: Kafka accepted or returned no rows in time.
    """
    archive = archive_of(settings)
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".classes-") as work:
        written = Path(work) / archive.name
        session = open_session(
            settings,
            name="class archive",
            extra={
                "spark.driver.extraJavaOptions": " ".join(
                    (*OPTIONS, f"-XX:ArchiveClassesAtExit={written}")
                )
            },
        )
        with _topics(platform_broker(settings)) as (source, sink):
            for trigger in (Trigger.REAL_TIME, Trigger.BOUNDED):
                run = JobRun(
                    name=f"classes:{trigger}", trigger=trigger, checkpoint=f"{work}/{trigger}"
                )
                _run(session, settings, source=source, sink=sink, run=run)
        _end(session)
        if not written.is_file():
            log.warning("no_classes_archived", reason="this Java does not support class archives")
            written.touch()
        written.replace(archive)
    return archive


@contextmanager
def _topics(broker: Broker) -> Iterator[tuple[str, str]]:
    """Create a topic with a few rows and an empty topic; delete both at the end."""
    admin = AdminClient({**broker.config()})
    token = secrets.token_hex(4)
    source, sink = names = (f"nx_classes_{token}_in", f"nx_classes_{token}_out")
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(WITHIN_S)
    try:
        producer = Producer({**broker.config()})
        for number in range(ROWS):
            producer.produce(source, f'{{"user": "u{number}", "cents": {number}}}'.encode())
        producer.flush(WITHIN_S)
        yield source, sink
    finally:
        for gone in admin.delete_topics(list(names)).values():
            gone.result(WITHIN_S)


def _run(session: SparkSession, settings: Settings, *, source: str, sink: str, run: JobRun) -> None:
    """Copy the rows with the given kind of run, until all of them have arrived."""
    broker = platform_broker(settings)
    end_offsets = EndOffsetReader(platform_broker(settings))
    wanted = sum(end_offsets.ends([sink])[sink].values()) + ROWS
    query = write_records(
        _copied(read_topics(session, broker, [source], run=run), sink), broker, run=run
    )

    def has_written() -> bool:
        return sum(end_offsets.ends([sink])[sink].values()) >= wanted

    is_over = _POLL.until(lambda: has_written() or query.exception() is not None, within_s=WITHIN_S)
    if not is_over or query.exception() is not None:
        raise NotArchivedError(f"`{run.name}` wrote no rows: {query.exception()}")
    query.stop()


def _copied(records: DataFrame, sink: str) -> DataFrame:
    row = f.from_json(f.col("value").cast("string"), "user STRING, cents BIGINT")
    rows = records.withColumn("row", row).where("row.cents >= 0")
    return rows.select(
        f.lit(sink).alias("topic"),
        f.concat(f.col("row.user"), f.col("offset").cast("string")).alias("key"),
        f.to_json(f.struct("row.*", "partition")).alias("value"),
    )


def _end(session: SparkSession) -> None:
    """Shut down the JVM, which makes it write the archive, and wait for it to exit."""
    gateway = session.sparkContext._gateway  # noqa: SLF001 (no public API has its process)
    session.stop()
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(DUMP_WITHIN_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the archive; print its path on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args(arguments)
    began = time.monotonic()
    path = write_archive(load_settings())
    log.info("classes_archived", took_s=round(time.monotonic() - began, 1))
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
