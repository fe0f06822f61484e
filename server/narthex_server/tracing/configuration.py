"""OpenTelemetry's own variables decide whether this process traces, and where spans go."""

import importlib
from collections.abc import Mapping
from typing import Final

import structlog

from narthex_server.tracing.log_ids import join_logs
from narthex_server.tracing.spans import Tracing

log = structlog.get_logger()

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTERS: Final = {"", "otlp", "otlp_proto_http", "otlp_proto_grpc"}
"""The values of `OTEL_TRACES_EXPORTER` with which a process traces."""

_EXPORTING: Final = "narthex_server.tracing.exporting"


def start_tracing(environment: Mapping[str, str], *, service: str) -> Tracing | None:
    """Return the traces of this process; None unless the variables name a collector.

    An invalid variable turns traces off, and is logged: a server without traces is better than
    none.

    Args:
        environment: The process's own; the SDK reads it too.
        service: The name of the service, unless `OTEL_SERVICE_NAME` or
            `OTEL_RESOURCE_ATTRIBUTES` has one.
    """
    if not _is_wanted(environment):
        return None
    try:
        # The SDK takes ten megabytes, which a process without traces does not spend.
        tracing: Tracing = importlib.import_module(_EXPORTING).tracing_of(
            environment, service=service
        )
    except (ValueError, ImportError) as error:
        log.warning("tracing_is_off", error=str(error)[:500])
        return None
    join_logs()
    return tracing


def _is_wanted(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip() not in _EXPORTERS:
        return False
    return any(environment.get(name, "").strip() for name in _ENDPOINTS)
