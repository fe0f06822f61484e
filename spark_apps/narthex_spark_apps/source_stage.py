"""The live run of a source: each record's rows are admitted as it comes.

The same rows as those of the bounded run, `topic_rows`, without a batch to wait for.
"""

import json
from collections.abc import Sequence

import attrs

from narthex.records import to_plain
from narthex.settings import Settings
from narthex_spark_apps.admitted_rows import RowRenderer
from narthex_spark_apps.source_job import SourceJob
from narthex_spark_apps.topic_rows import TopicReader
from narthex_stores import LogProducer, Record

MILLI_US = 1000


@attrs.define
class SourceStage:
    """Turns records of a source's topic into records of its log and of its quarantine."""

    job: SourceJob
    producer: LogProducer
    renderer: RowRenderer
    reader: TopicReader
    counts: dict[str, int] = attrs.field(
        factory=lambda: {"rows": 0, "quarantined": 0, "left_out": 0}
    )

    @classmethod
    def of(cls, job: SourceJob, settings: Settings) -> "SourceStage":
        """Prepare the stage of a job.

        Raises:
            SecretMissing: A secret that its records cannot be read without is not there.
        """
        renderer = RowRenderer.of(
            json.dumps(to_plain(job.spec)),
            source_id="",
            output=job.output,
            quarantine=job.quarantine,
        )
        reader = job.format(settings).open()
        # Last, so that what fails before it leaves no client behind.
        producer = LogProducer(settings.kafka)
        return cls(job=job, producer=producer, renderer=renderer, reader=reader)

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
                partition=record.partition,
                offset=record.offset,
                # The instant that the broker gave it: a replay of the log sees the same.
                now_us=record.timestamp_ms * MILLI_US,
            )
        ]
        for made in self.renderer.render(arrived):
            self.counts["rows"] += 1
            self.counts["left_out"] += not made
            for topic, key, value in made:
                self.counts["quarantined"] += topic == self.job.quarantine
                self.producer.post(topic, key=key, value=value)
        self.producer.flush()
        if self.renderer.newest_us is not None:
            self.counts["newest"] = self.renderer.newest_us

    def close(self) -> None:
        """End the worker that ran code of the author, and the producer."""
        self.renderer.close()
        self.producer.close()
