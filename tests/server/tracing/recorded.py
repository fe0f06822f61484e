"""Traces that stay in this process, for tests of their shape."""

from collections.abc import Sequence

import attrs
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler
from opentelemetry.trace import format_span_id, format_trace_id

from narthex_server.tracing import Tracing


@attrs.frozen
class Recorded:
    """Traces, and the spans that have ended."""

    tracing: Tracing
    _exporter: InMemorySpanExporter

    def spans(self) -> Sequence[ReadableSpan]:
        """Return the spans that ended since the last call, in the order of their ends."""
        ended = self._exporter.get_finished_spans()
        self._exporter.clear()
        return ended


def recorded(*, sampler: Sampler | None = None) -> Recorded:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Recorded(Tracing(tracer=provider.get_tracer("tests"), end=provider.shutdown), exporter)


def only_of_callers() -> Sampler:
    """Return a sampler that records the traces that a caller records."""
    return ParentBased(ALWAYS_OFF)


def trace_of(span: ReadableSpan) -> str:
    return format_trace_id(span.context.trace_id)


def id_of(span: ReadableSpan) -> str:
    return format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else format_span_id(span.parent.span_id)
