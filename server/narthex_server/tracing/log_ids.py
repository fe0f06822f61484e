"""Lines of logs that were written during a span have its ids."""

import structlog
from opentelemetry.trace import get_current_span
from structlog.typing import EventDict, WrappedLogger


def join_logs() -> None:
    """Let the log of this process have `trace_id` and `span_id`, as trace stores write them."""
    *before, renderer = structlog.get_config()["processors"]
    if _add_ids not in before:
        structlog.configure(processors=[*before, _add_ids, renderer])


def _add_ids(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del logger, method
    span = get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
        event["span_id"] = f"{span.span_id:016x}"
    return event
