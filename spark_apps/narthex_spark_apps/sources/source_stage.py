"""The live run of a source: each record's rows are admitted as it comes.

The same rows as those of the bounded run, `topic_rows`, without a batch to wait for.
"""

from collections.abc import Sequence

import attrs

from narthex.settings import Settings
from narthex_spark_apps.sources.polling_source import RowAppender, no_rows
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.records import TopicReader
from narthex_spark_apps.sources.validated_rows import RawRowPosition
from narthex_stores import LogProducer, Record

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
        """Prepare the stage of a job.

        Raises:
            SecretMissing: A secret that its records cannot be read without is not there.
        """
        appender = RowAppender.of(job)
        reader = job.format(settings).open()
        # Last, so that what fails before it leaves no client behind.
        producer = LogProducer(settings.kafka)
        return cls(job=job, producer=producer, appender=appender, reader=reader)

    def take(self, records: Sequence[Record]) -> None:
        """Work records off; when it returns, what became of their rows stands.

        Raises:
            StoreError: Something could not be appended; the records are to be taken again.
        """
        arrived = [
            one
            for record in records
            for one in self.reader.rows(
                record.value,
                place=RawRowPosition(partition=record.partition, offset=record.offset),
                # The instant that the broker gave it: a replay of the log sees the same.
                now_us=record.timestamp_ms * MILLI_US,
            )
        ]
        self.appender.append(arrived, self.producer, self.counts)
        newest = self.appender.newest_us()
        if newest is not None:
            self.counts["newest"] = newest

    def close(self) -> None:
        """End the worker that ran code of the author, and the producer."""
        self.appender.close()
        self.producer.close()
