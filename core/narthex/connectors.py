"""Connectors: where rows enter and leave, and what is done to them on the way."""

from narthex.declare.connections import (
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
from narthex.declare.connector_parts import Secret
from narthex.declare.file_stores import CSV, S3, Files
from narthex.declare.preprocs import Sample, eval, ref  # noqa: A004 (Fennel's name)
from narthex.declare.sinks import SnapshotData, sink
from narthex.declare.sources import source
from narthex.declare.tables import BigQuery, Mongo, MySQL, Postgres, Redshift, Snowflake

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
