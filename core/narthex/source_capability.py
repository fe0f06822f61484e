"""Sources, sinks and code at them that a definition may have but no job can carry out yet.

They are sound definitions: the reference engine and the in-process client carry them out.
"""

from collections.abc import Iterator
from typing import assert_never

from narthex.code import UserCode
from narthex.entities import (
    Cdc,
    CodeExtractor,
    ComputedByCode,
    Connector,
    Dataset,
    Definitions,
    Files,
    HttpPath,
    KafkaTopic,
    KinesisStream,
    PubSubTopic,
    RegistryFormat,
    Sink,
    Source,
    Table,
    TableFormat,
    WebhookEndpoint,
    WhereByCode,
)
from narthex.errors import NotYetSupported, in_source_order
from narthex.fingerprints import source_id
from narthex.operators import Aggregate, AssignCode, Filter, Transform
from narthex.schemas import all_steps
from narthex.secrets import READS_SECRETS


def not_carried_out_at_edges(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Find what no job can carry out yet where rows enter and leave, in source order."""
    found: list[NotYetSupported] = []
    for dataset in definitions.datasets:
        for source in dataset.sources:
            found += _of_source(source)
        for sink in dataset.sinks:
            found.append(_of_sink(sink))
        found += _of_pipelines(dataset)
        found += _of_expectations(dataset)
    for featureset in definitions.featuresets:
        for extractor in featureset.extractors:
            if isinstance(extractor, CodeExtractor):
                found += _of_code(extractor.code, f"extractor `{extractor.name}`")
    return tuple(error for error in in_source_order(found) if isinstance(error, NotYetSupported))


def _of_source(source: Source) -> Iterator[NotYetSupported]:
    for what, hint in _of_connector(source.connector):
        message = f"the source `{source_id(source)}`: {what} not read yet"
        yield NotYetSupported(message, origin=source.origin, hint=hint)
    if source.cdc is Cdc.NATIVE:
        yield NotYetSupported(
            f'`cdc="{source.cdc.value}"` is not carried out yet',
            origin=source.origin,
            hint='deliver the rows as they stand, with `cdc="upsert"`',
        )
    codes = [(f"`preproc` of `{name}`", one) for name, one in source.preproc]
    for what, step in (*codes, ("`where`", source.where)):
        if isinstance(step, ComputedByCode | WhereByCode):
            yield from _of_code(step.code, f"{what} of `{source_id(source)}`")


def _of_connector(connector: Connector) -> Iterator[tuple[str, str]]:
    match connector:
        case WebhookEndpoint():
            return
        case KafkaTopic():
            yield from _of_topic(connector)
        case Files():
            yield from _of_files(connector)
        case Table():
            yield "tables of databases are", "stream its changes into a Kafka topic"
        case KinesisStream():
            yield "streams of Kinesis are", "bring its records into a Kafka topic"
        case PubSubTopic():
            yield "topics of Pub/Sub are", "bring its records into a Kafka topic"
        case _:
            assert_never(connector)


def _of_topic(topic: KafkaTopic) -> Iterator[tuple[str, str]]:
    if isinstance(topic.format, RegistryFormat):
        encoding = topic.format.encoding.value.capitalize()
        yield f"records of {encoding} are", "write JSON objects into the topic"
    if topic.username is not None or topic.security_protocol != "PLAINTEXT":
        yield f"{topic.security_protocol} brokers are", "give a PLAINTEXT listener"


def _of_files(files: Files) -> Iterator[tuple[str, str]]:
    if isinstance(files.format, TableFormat):
        yield f"files in the format {files.format.kind} are", "write csv, json or parquet"
    if "://" in files.path and not files.path.startswith("s3://"):
        yield f"files at `{files.path}` are", "give a path, or an address that begins with `s3://`"
    if "%" in files.path:
        yield "parts of dates in a path are", "write `*` in their place"
    if files.access_key is not None or files.role_arn is not None:
        hint = "leave them out; the platform reads `AWS_ACCESS_KEY_ID` and its fellows"
        yield "files with credentials of their own are", hint


def _of_sink(sink: Sink) -> NotYetSupported:
    match sink.target:
        case KafkaTopic():
            where = "Kafka"
        case HttpPath():
            where = "HTTP"
        case Files():
            where = "S3"
        case Table():
            where = "Snowflake"
        case _:
            assert_never(sink.target)
    return NotYetSupported(
        f"a sink into {where} is not written yet",
        origin=sink.origin,
        hint="read the dataset's log or its history",
    )


def _of_pipelines(dataset: Dataset) -> Iterator[NotYetSupported]:
    for pipeline in dataset.pipelines:
        for step in all_steps(pipeline.terminal):
            match step:
                case (
                    AssignCode(code=code)
                    | Transform(code=code)
                    | Filter(predicate=UserCode() as code)
                ):
                    yield from _of_code(code, f"pipeline `{dataset.name}.{pipeline.name}`")
                case _:
                    pass


def _of_expectations(dataset: Dataset) -> Iterator[NotYetSupported]:
    ends = any(isinstance(pipeline.terminal, Aggregate) for pipeline in dataset.pipelines)
    if dataset.expectations and ends:
        yield NotYetSupported(
            f"expectations on `{dataset.name}`, which ends in an aggregate, are not audited yet",
            origin=dataset.origin,
            hint="expect it of the dataset that the pipeline reads",
        )


def _of_code(code: UserCode, what: str) -> Iterator[NotYetSupported]:
    if READS_SECRETS in code.source:
        yield NotYetSupported(
            f"{what} reads a secret, which no job hands to code of authors yet",
            origin=code.origin,
            hint="take what it needs as a column",
        )
