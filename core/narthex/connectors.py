"""Connectors: where rows enter and leave, and how they are processed on the way."""

from narthex._connectors.bigquery import BigQuery
from narthex._connectors.files import CSV, S3, Files
from narthex._connectors.http import HTTP, Certificate
from narthex._connectors.kafka import Avro, Kafka, Protobuf
from narthex._connectors.kinesis import Kinesis, at_timestamp
from narthex._connectors.mongo import Mongo
from narthex._connectors.mysql import MySQL
from narthex._connectors.parts import Secret
from narthex._connectors.postgres import Postgres
from narthex._connectors.pubsub import PubSub
from narthex._connectors.redshift import Redshift
from narthex._connectors.snowflake import Snowflake
from narthex._connectors.webhook import Webhook
from narthex._sdk.connectors.preprocs import Sample, eval, ref  # noqa: A004 (Fennel's name)
from narthex._sdk.connectors.sinks import SnapshotData, sink
from narthex._sdk.connectors.sources import source

__all__ = [
    "CSV",
    "HTTP",
    "S3",
    "Avro",
    "BigQuery",
    "Certificate",
    "Files",
    "Kafka",
    "Kinesis",
    "Mongo",
    "MySQL",
    "Postgres",
    "Protobuf",
    "PubSub",
    "Redshift",
    "Sample",
    "Secret",
    "SnapshotData",
    "Snowflake",
    "Webhook",
    "at_timestamp",
    "eval",
    "ref",
    "sink",
    "source",
]
