"""Connectors: where rows enter and leave, and how they are processed on the way."""

from narthex._sdk.connectors.files import CSV, S3, Files
from narthex._sdk.connectors.parts import Secret
from narthex._sdk.connectors.preprocs import Sample, eval, ref  # noqa: A004 (Fennel's name)
from narthex._sdk.connectors.sinks import SnapshotData, sink
from narthex._sdk.connectors.sources import source
from narthex._sdk.connectors.streams import (
    HTTP,
    Avro,
    Certificate,
    Kafka,
    Kinesis,
    Protobuf,
    PubSub,
    Webhook,
    at_timestamp,
)
from narthex._sdk.connectors.tables import BigQuery, Mongo, MySQL, Postgres, Redshift, Snowflake

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
