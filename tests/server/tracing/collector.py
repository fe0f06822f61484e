"""A collector of traces: it receives OTLP over HTTP, as protobuf, and keeps the spans."""

import gzip
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from typing_extensions import override

ARRIVES_S = 30.0


@attrs.frozen(kw_only=True)
class ReceivedSpan:
    """A span as a collector receives it; ids are in hexadecimal digits."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, str | int]
    has_events: bool
    status_message: str


@attrs.define
class Collector:
    """The received spans; a silent collector keeps its callers waiting until it ends."""

    url: str = ""
    is_silent: bool = False
    spans: list[ReceivedSpan] = attrs.field(factory=list)
    calls: int = 0
    ended: threading.Event = attrs.field(factory=threading.Event)

    def environment(self) -> dict[str, str]:
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def wait_for(self, *names: str) -> Sequence[ReceivedSpan]:
        """Return all spans as soon as there is one of each name."""
        ends_at = time.monotonic() + ARRIVES_S
        while missing := set(names) - {one.name for one in self.spans}:
            assert time.monotonic() < ends_at, f"{missing} are not in {self.spans}"
            time.sleep(0.05)
        return tuple(self.spans)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    collector: Collector


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_POST(self) -> None:
        collector = self.server.collector
        collector.calls += 1
        if collector.is_silent:
            collector.ended.wait()
            return
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        collector.spans += spans_of(ExportTraceServiceRequest.FromString(body))
        content = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def collecting(*, is_silent: bool = False) -> Iterator[Collector]:
    """Run a collector on a port of this machine."""
    collector = Collector(is_silent=is_silent)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.collector = collector
        collector.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            collector.ended.set()
            server.shutdown()


def spans_of(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            service=str(_plain(resource.resource.attributes).get("service.name")),
            name=span.name,
            kind=span.kind,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            attributes=_plain(span.attributes),
            has_events=bool(span.events),
            status_message=span.status.message,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _plain(attributes: Sequence[KeyValue]) -> dict[str, str | int]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> str | int:
    found = getattr(value, str(value.WhichOneof("value")))
    assert isinstance(found, str | int)
    return found
