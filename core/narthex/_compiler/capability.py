"""The parts of valid definitions that no job can run yet.

`narthex._analysis.graph` checks the language, and the reference engine and the in-process client
run all of it. Before assets are created, this module refuses definitions that jobs would not run
exactly. Jobs run all steps, aggregates and windows of pipelines; the gaps are in how rows enter
and leave, and in authors' code that reads secrets.
"""

from collections.abc import Iterator

from narthex._analysis.fingerprints import source_id
from narthex._analysis.schemas.pipelines import all_steps
from narthex._base.origin import Origin
from narthex._compiler.log_specs import final_aggregate
from narthex._connectors.kinds import Input, credentials_of
from narthex._connectors.registry import sink_kind, source_kind
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    AwsSecretRef,
    CodeExtractor,
    ComputedByCode,
    Connector,
    Dataset,
    Definitions,
    Sink,
    Source,
    WhereByCode,
)
from narthex._ir.operators import Aggregate, AssignCode, Filter, Transform
from narthex._ir.windows import Continuous
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
    for featureset in definitions.featuresets:
        for extractor in featureset.extractors:
            if isinstance(extractor, CodeExtractor):
                found += _of_code(extractor.code, f"extractor `{extractor.name}`")
    return tuple(error for error in in_source_order(found) if isinstance(error, NotYetSupported))


def _of_source(source: Source) -> Iterator[NotYetSupported]:
    subject = f"the source `{source_id(source)}`"
    for fault in source_kind(source.connector).unsupported(source.connector):
        message = f"{subject}: {fault.message} not read yet"
        yield NotYetSupported(message, origin=source.origin, hint=fault.hint)
    if source.bounded and source_kind(source.connector).input is not Input.FILES:
        yield NotYetSupported(
            f"{subject}: `bounded` is for files; other sources are read for ever",
            origin=source.origin,
            hint="leave `bounded` out; `until` drops rows from an instant on",
        )
    yield from _of_credentials(source.connector, subject, source.origin)
    codes = [(f"`preproc` of `{name}`", one) for name, one in source.preproc]
    for what, step in (*codes, ("`where`", source.where)):
        if isinstance(step, ComputedByCode | WhereByCode):
            yield from _of_code(step.code, f"{what} of `{source_id(source)}`")


def _of_credentials(
    connector: Connector, subject: str, origin: Origin
) -> Iterator[NotYetSupported]:
    if any(isinstance(credential, AwsSecretRef) for credential in credentials_of(connector)):
        yield NotYetSupported(
            f"{subject}: secrets of AWS are not read yet",
            origin=origin,
            hint='keep it by `narthex secret set`, and name it `Secret("…")`',
        )


def _of_sink(dataset: Dataset, sink: Sink) -> Iterator[NotYetSupported]:
    for fault in sink_kind(sink.target).unsupported(sink.target):
        message = f"a sink: {fault.message} not written yet"
        yield NotYetSupported(message, origin=sink.origin, hint=fault.hint)
    yield from _of_credentials(sink.target, "a sink", sink.origin)
    for message, hint in _of_told(dataset):
        yield NotYetSupported(message, origin=sink.origin, hint=hint)


def _of_told(dataset: Dataset) -> Iterator[tuple[str, str]]:
    if final_aggregate(dataset) is not None:
        message = f"a sink of `{dataset.name}`, which ends in an aggregate, is not written yet"
        yield message, "write the dataset that it is made from"


def _of_pipelines(dataset: Dataset) -> Iterator[NotYetSupported]:
    for pipeline in dataset.pipelines:
        for step in all_steps(pipeline.terminal):
            match step:
                case Aggregate():
                    yield from _of_windows(step, f"pipeline `{dataset.name}.{pipeline.name}`")
                case (
                    AssignCode(code=code)
                    | Transform(code=code)
                    | Filter(predicate=UserCode() as code)
                ):
                    yield from _of_code(code, f"pipeline `{dataset.name}.{pipeline.name}`")
                case _:
                    pass


def _of_windows(step: Aggregate, what: str) -> Iterator[NotYetSupported]:
    for spec in step.specs:
        if isinstance(spec.window, Continuous) and spec.window.max_error:
            yield NotYetSupported(
                f"{what}: `max_error` of `{spec.into}` has no effect: windows are exact at both "
                "ends",
                origin=step.origin,
                hint="leave `max_error` out",
            )


def _of_code(code: UserCode, what: str) -> Iterator[NotYetSupported]:
    if READS_SECRETS in code.source:
        yield NotYetSupported(
            f"{what} reads a secret; author code in jobs cannot read secrets yet",
            origin=code.origin,
            hint="pass the value as a column",
        )
