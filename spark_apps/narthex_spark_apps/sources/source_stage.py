"""The live run of a source: validate the rows of each record as it arrives.

It handles rows like the bounded run in `topics.records`, without waiting for a batch.
"""

from collections.abc import Sequence

import attrs

from narthex.settings import Settings
from narthex_spark_apps.sources.row_appender import RowAppender, no_rows
from narthex_spark_apps.sources.row_rendering import RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.records import TopicReader
from narthex_stores import LogProducer, Record, platform_broker

MILLI_US = 1000


@attrs.define
class SourceStage:
    """Turns records of a source's topic into records of its log and of its quarantine."""

    job: SourceJob
    producer: LogProducer
    appender: RowAppender
    reader: TopicReader
    counts: dict[str, int] = attrs.field(factory=no_rows)

    @classmethod
    def of(cls, job: SourceJob, settings: Settings) -> "SourceStage":
        """Return the stage of a job.

        Raises:
            SecretMissing: A secret that is required to read its records is missing.
        """
        appender = RowAppender.of(job)
        reader = job.format(settings).open()
        # Opened last, so that an earlier failure leaves no client open.
        producer = LogProducer(platform_broker(settings))
        return cls(job=job, producer=producer, appender=appender, reader=reader)

    def take(self, records: Sequence[Record]) -> None:
        """Process records; on return, the output for their rows is durable.

        Raises:
            StoreError: A record could not be appended; the input must be taken again.
        """
        arrived = [
            row
            for record in records
            for row in self.reader.rows(
                record.value,
                place=RawRowPosition(partition=record.partition, offset=record.offset),
                # The broker's timestamp: a replay of the log gets the same one.
                now_us=record.timestamp_ms * MILLI_US,
            )
        ]
        self.appender.append(arrived, self.producer, self.counts)
        newest = self.appender.newest_us()
        if newest is not None:
            self.counts["newest"] = newest

    def close(self) -> None:
        """Stop the worker that runs code of the author, and the producer."""
        self.appender.close()
        self.producer.close()
