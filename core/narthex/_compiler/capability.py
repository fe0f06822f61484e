"""The parts of valid definitions that no job can run yet.

`narthex._analysis.graph` checks the language, and the reference engine and the in-process client
run all of it. Before assets are created, this module refuses definitions that jobs would not run
exactly. Jobs run all steps, aggregates and windows of pipelines; the gaps are in how rows enter
and leave, and in authors' code that reads secrets.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from narthex._analysis.fingerprints import source_id
from narthex._analysis.schemas.pipelines import all_steps
from narthex._compiler.log_specs import final_aggregate
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    AwsSecretRef,
    BigQueryDataset,
    CodeExtractor,
    ComputedByCode,
    Connector,
    Database,
    Dataset,
    Definitions,
    Files,
    HttpPath,
    KafkaTopic,
    KinesisStream,
    PubSubTopic,
    RegistryFormat,
    Sink,
    SinkTarget,
    SnowflakeDatabase,
    Source,
    SqlDatabase,
    Table,
    TableFormat,
    WebhookEndpoint,
    WhereByCode,
)
from narthex._ir.operators import Aggregate, AssignCode, Filter, Transform
from narthex.errors import NotYetSupported, in_source_order
from narthex.secrets import READS_SECRETS


def not_carried_out(definitions: Definitions) -> tuple[NotYetSupported, ...]:
    """Return an error for each part that jobs cannot run yet, in source order.

    The definitions passed `narthex._analysis.graph.check`.
    """
    found: list[NotYetSupported] = []
    for dataset in definitions.datasets:
        for source in dataset.sources:
            found += _of_source(source)
        for sink in dataset.sinks:
            found += _of_sink(dataset, sink)
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
        case Table(database=database):
            yield from _of_database(database)
        case KinesisStream(format=format):
            yield from _of_credentials(_of_format(format))
        case PubSubTopic(service_account_key=key):
            yield from _of_credentials([key])
        case _:
            assert_never(connector)


def _of_database(database: Database) -> Iterator[tuple[str, str]]:
    match database:
        case BigQueryDataset(service_account_key=key):
            yield from _of_credentials([key])
            return
        case _:
            pass
    yield from _of_credentials([database.username, database.password])


def _of_format(format: str | RegistryFormat) -> list[object]:
    if isinstance(format, RegistryFormat):
        return [format.username, format.password, format.token]
    return []


def _of_topic(topic: KafkaTopic) -> Iterator[tuple[str, str]]:
    if topic.security_protocol.startswith("SASL") and topic.sasl_mechanism == "GSSAPI":
        yield "brokers that want GSSAPI are", "give a listener with SCRAM-SHA-512"
    yield from _of_credentials([topic.username, topic.password, *_of_format(topic.format)])


def _of_credentials(credentials: Iterable[object]) -> Iterator[tuple[str, str]]:
    if any(isinstance(one, AwsSecretRef) for one in credentials):
        yield "secrets of AWS are", 'keep it by `narthex secret set`, and name it `Secret("…")`'


def _of_files(files: Files) -> Iterator[tuple[str, str]]:
    if isinstance(files.format, TableFormat) and files.format.kind != "delta":
        yield f"files in the format {files.format.kind} are", "write csv, json, parquet or delta"
    if files.role_arn is not None:
        yield "files behind a role of AWS are", "give keys, or leave them to the platform"
    yield from _of_credentials([files.access_key, files.secret_key])


def _of_sink(dataset: Dataset, sink: Sink) -> Iterator[NotYetSupported]:
    for message, hint in (*_of_target(sink.target), *_of_told(dataset)):
        yield NotYetSupported(message, origin=sink.origin, hint=hint)


def _of_target(target: SinkTarget) -> Iterator[tuple[str, str]]:
    credentials: list[object] = []
    match target:
        case KafkaTopic():
            found = [what for what, _ in _of_topic(target)]
            yield from ((f"a sink: {what} not written yet", "give another one") for what in found)
        case HttpPath():
            credentials = [target.host, target.ca_cert, *(value for _, value in target.headers)]
        case Files():
            pass
        case Table(database=SqlDatabase() | SnowflakeDatabase() as database):
            credentials = [database.username, database.password]
        case Table():
            raise TypeError("the sink's database is refused by `narthex._analysis.checks.sinks`")
        case _:
            assert_never(target)
    for what, hint in _of_credentials(credentials):
        yield f"a sink: {what} not read yet", hint


def _of_told(dataset: Dataset) -> Iterator[tuple[str, str]]:
    if final_aggregate(dataset) is not None:
        message = f"a sink of `{dataset.name}`, which ends in an aggregate, is not written yet"
        yield message, "write the dataset that it is made from"


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
            hint="put the expectation on the dataset that the pipeline reads",
        )


def _of_code(code: UserCode, what: str) -> Iterator[NotYetSupported]:
    if READS_SECRETS in code.source:
        yield NotYetSupported(
            f"{what} reads a secret; author code in jobs cannot read secrets yet",
            origin=code.origin,
            hint="pass the value as a column",
        )
