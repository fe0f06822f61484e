"""OpenTelemetry traces of requests and commits; off unless OpenTelemetry's variables turn it on.

`configuration` reads the variables; `exporting` has the SDK, and is imported only if it is needed;
`spans` begins spans; `requests` is the ASGI middleware; `log_ids` adds ids to the lines of logs.
"""

from narthex_server.tracing.configuration import start_tracing
from narthex_server.tracing.requests import ROUTE_KEY, TracedRequests
from narthex_server.tracing.spans import Tracing, carried, is_recording, is_traced, span

__all__ = [
    "ROUTE_KEY",
    "TracedRequests",
    "Tracing",
    "carried",
    "is_recording",
    "is_traced",
    "span",
    "start_tracing",
]
