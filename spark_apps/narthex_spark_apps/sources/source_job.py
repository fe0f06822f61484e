"""Source jobs: raw rows of a topic become facts of a dataset log, or go to quarantine.

Each raw row becomes one record, whose `topic` is the log or the quarantine; no record if the author
filters it; two records if its key has changed. Spark does a bounded run, a stage the live one; both
use `narthex_spark_apps.sources.row_rendering`.
"""

import json

import attrs
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from narthex._base import to_plain
from narthex._connectors import Input, source_kind
from narthex._ir import Cdc, KafkaTopic, ResolvedAsset, SourceJobSpec
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics, write_records
from narthex_spark_apps.platform.record_batches import OUTPUT
from narthex_spark_apps.sources.topics.records import TopicFormat, TopicRun
from narthex_stores import Broker, platform_broker


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
        """The topic of refused rows."""
        return self.asset.need("quarantine").physical_name

    def format(self, settings: Settings) -> TopicFormat:
        """Return the record format of its topic."""
        source = self.spec.source
        kind = source_kind(source.connector)
        return TopicFormat(
            calls=kind.input is Input.INGEST,
            envelopes=source.cdc is Cdc.DEBEZIUM,
            registry=kind.format(source.connector),
            secrets=AuthorSecrets.of(settings),
            ca_file=settings.ca_file,
        )

    def topic(self) -> str:
        """Return the topic that the job reads: an ingest topic, or the author's."""
        connector = self.spec.source.connector
        if isinstance(connector, KafkaTopic):
            return connector.topic
        return self.asset.need("input").physical_name


def start_source(
    session: SparkSession, job: SourceJob, *, settings: Settings, run: JobRun, reads: Broker
) -> StreamingQuery:
    """Start a bounded run on a topic of the broker `reads`; facts go to the platform's broker.

    Raises:
        TypeError: The source reads files.
    """
    if source_kind(job.spec.source.connector).input is Input.FILES:
        raise TypeError("files are read by `narthex_spark_apps.sources.files.source`")
    stage = TopicRun(
        spec=json.dumps(to_plain(job.spec)),
        output=job.output,
        quarantine=job.quarantine,
        format=job.format(settings),
    )
    records = read_topics(session, reads, [job.topic()], run=run)
    # The broker's timestamp of the record: a replay of the log gets the same one.
    written_at = sf.unix_micros(sf.col("timestamp")).alias("now")
    rows = records.select("partition", "offset", written_at, "value")
    rendered = rows.mapInArrow(stage, OUTPUT)
    return write_records(rendered, platform_broker(settings), run=run)
