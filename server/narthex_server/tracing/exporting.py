"""The SDK: spans are sampled, queued, and sent to a collector by a thread of their own."""

import importlib
import threading
from collections.abc import Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from narthex_server.tracing.spans import Tracing

ENDS_S: Final = 3.0
"""How long the end of a process waits for a collector."""

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTERS: Final = {"otlp_proto_http": "http/protobuf", "otlp_proto_grpc": "grpc"}
"""The exporters that `OTEL_TRACES_EXPORTER` names with their protocol, as Airflow needs it."""

_GRPC: Final = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
_NAMES: Final = ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES")


def tracing_of(environment: Mapping[str, str], *, service: str) -> Tracing:
    """Return traces that go to the collector of OpenTelemetry's variables.

    The SDK reads the sampler, the limits and the sizes of its queue from its own variables.

    Raises:
        ValueError: A variable is not valid.
        ImportError: The exporter of the protocol is not installed.
    """
    given = environment.get(_NAMES[0]) or "service.name=" in environment.get(_NAMES[1], "")
    resource = Resource.create({} if given else {"service.name": service})
    # The end of the process is bounded here; the SDK's own would wait for half a minute.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_exporter(environment)))
    return Tracing(tracer=provider.get_tracer("narthex"), end=lambda: _end(provider))


def _exporter(environment: Mapping[str, str]) -> SpanExporter:
    named = _EXPORTERS.get(environment.get("OTEL_TRACES_EXPORTER", "").strip())
    given = next(filter(None, map(environment.get, _PROTOCOLS)), "http/protobuf").strip()
    protocol = named or given
    if protocol == "http/protobuf":
        return OTLPSpanExporter()
    if protocol != "grpc":
        raise ValueError(
            f"`OTEL_EXPORTER_OTLP_PROTOCOL` is `{protocol[:40]}`; set it to `http/protobuf` or "
            "`grpc`"
        )
    made: SpanExporter = importlib.import_module(_GRPC).OTLPSpanExporter()
    return made


def _end(provider: TracerProvider) -> None:
    ending = threading.Thread(target=provider.shutdown, name="tracing-end", daemon=True)
    ending.start()
    ending.join(ENDS_S)
