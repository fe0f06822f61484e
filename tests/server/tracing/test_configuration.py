"""OpenTelemetry's variables turn traces on; what is written then can be joined with logs."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import CapturingLogger

from narthex_server.tracing import span, start_tracing
from narthex_server.tracing.log_ids import join_logs
from tests.server.tracing.recorded import id_of, recorded, trace_of

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_SERVICE_NAME": "narthex"},
        ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"},
        ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"},
        ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"},
    ],
    ids=["nothing", "empty", "no endpoint", "disabled", "no exporter", "invalid"],
)
def test_a_process_without_a_collector_does_not_trace(environment: dict[str, str]) -> None:
    assert start_tracing(environment, service="tests") is None


_PROCESS = """
import json, os, sys
from narthex_server.tracing import start_tracing
tracing = start_tracing(os.environ, service="tests")
sdk = "opentelemetry.sdk.trace" in sys.modules
grpc = "grpc" in sys.modules
found = None
if tracing is not None:
    with tracing.serving("GET", "", {}) as span:
        found = [span.is_recording(), span.resource.attributes.get("service.name")] \\
            if span.is_recording() else [False, None]
print(json.dumps([sdk, grpc, found]))
"""


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, [False, False, None]),
        (ENDPOINT, [True, False, [True, "tests"]]),
        (ENDPOINT | {"OTEL_SERVICE_NAME": "mine"}, [True, False, [True, "mine"]]),
        (
            ENDPOINT | {"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine"},
            [True, False, [True, "mine"]],
        ),
        (ENDPOINT | {"OTEL_TRACES_SAMPLER": "always_off"}, [True, False, [False, None]]),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, [True, True, [True, "tests"]]),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp_proto_grpc"}, [True, True, [True, "tests"]]),
        (
            ENDPOINT
            | {"OTEL_TRACES_EXPORTER": "otlp_proto_http", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            [True, False, [True, "tests"]],
        ),
    ],
    ids=["off", "on", "name", "attributes", "sampler", "grpc", "grpc exporter", "http exporter"],
)
def test_a_process_loads_the_sdk_only_if_its_variables_name_a_collector(
    environment: dict[str, str], found: object
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROCESS],
        env={"PATH": "/usr/bin", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found


@pytest.fixture
def lines() -> Iterator[CapturingLogger]:
    """The lines that are logged, as JSON."""
    before = structlog.get_config()
    captured = CapturingLogger()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        logger_factory=lambda *_: captured,
    )
    join_logs()
    join_logs()
    yield captured
    structlog.configure(**before)


def test_lines_of_a_log_have_the_ids_of_the_span_in_which_they_are_written(
    lines: CapturingLogger,
) -> None:
    traces, log = recorded(), structlog.get_logger()

    log.info("outside")
    with traces.tracing.serving("GET", "", {}):
        log.info("in_the_request")
        with span("look up"):
            log.info("below_it")

    inner, served = traces.spans()
    outside, in_request, below = [json.loads(call.args[0]) for call in lines.calls]
    assert outside == {"event": "outside"}
    assert in_request == {
        "event": "in_the_request",
        "trace_id": trace_of(served),
        "span_id": id_of(served),
    }
    assert below == {
        "event": "below_it",
        "trace_id": trace_of(served),
        "span_id": id_of(inner),
    }


def test_names_are_truncated_in_attributes() -> None:
    traces = recorded()

    with traces.tracing.serving("GET", "", {}), span("look up", {"narthex.dataset": "x" * 9000}):
        pass

    assert traces.spans()[0].attributes == {"narthex.dataset": "x" * 200}


def test_code_outside_of_a_trace_begins_no_span() -> None:
    traces = recorded()

    with span("look up"):
        pass
    with traces.tracing.continuing("not a traceparent"), span("plan"):
        pass

    assert traces.spans() == ()
