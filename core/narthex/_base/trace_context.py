"""The trace that the running code belongs to, in processes that use OpenTelemetry.

OpenTelemetry is never imported here. A process that has not imported it has no spans, so the
loaded modules tell, and a process without it pays nothing.
"""

import sys
from types import ModuleType

TRACEPARENT = "traceparent"
"""The header of W3C Trace Context that names the caller's span."""


def loaded_tracing() -> ModuleType | None:
    """Return OpenTelemetry's module `trace`; None if this process has not imported it."""
    found = sys.modules.get("opentelemetry.trace")
    # While another thread is importing it, it has no functions yet.
    return found if hasattr(found, "get_current_span") else None


def current_traceparent() -> str:
    """Return the `traceparent` of the current span; empty if there is none."""
    tracing = loaded_tracing()
    if tracing is None:
        return ""
    span = tracing.get_current_span().get_span_context()
    if not span.is_valid:
        return ""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def trace_headers() -> dict[str, str]:
    """Return the headers by which a call joins the current trace; none outside of a trace.

    Only `traceparent` is sent: `tracestate` and `baggage` may have texts of other systems.
    """
    traceparent = current_traceparent()
    return {TRACEPARENT: traceparent} if traceparent else {}
