"""Spans of the client's calls, if the author's process uses OpenTelemetry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from narthex._base.trace_context import loaded_tracing
from narthex.client.responses import Response
from narthex.errors import Refused

_TRACER: Final = "narthex"
_PORTS: Final = {"http": 80, "https": 443}

Note: TypeAlias = Callable[[Response], Response]
"""Notes the status of a response, and returns the response."""


@contextmanager
def call_span(verb: str, url: str, path: str) -> Iterator[Note]:
    """Run a call, with its repetitions, in one span of kind CLIENT.

    Its attributes have the server's address and no path, parameter or message, which may name rows.
    Nothing happens in a process without OpenTelemetry.
    """
    tracing = loaded_tracing()
    if tracing is None:
        yield _unchanged
        return
    with tracing.get_tracer(_TRACER).start_as_current_span(
        f"{verb} {path.split('/', 1)[0][:40]}",
        kind=tracing.SpanKind.CLIENT,
        attributes={"http.request.method": verb, **_address(url)},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def note(response: Response) -> Response:
            span.set_attribute("http.response.status_code", response.status_code)
            return response

        try:
            yield note
        except Exception as error:
            kind = type(error).__name__
            if isinstance(error, Refused):
                span.set_attribute("http.response.status_code", error.status_code)
                kind = str(error.status_code)
            span.set_attribute("error.type", kind)
            span.set_status(tracing.StatusCode.ERROR)
            raise


def _unchanged(response: Response) -> Response:
    return response


def _address(url: str) -> dict[str, str | int]:
    """Return the attributes of a server's address; only what can be read of an invalid one."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return {}
    return {"server.address": parts.hostname or "", "server.port": port}
