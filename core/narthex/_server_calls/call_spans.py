"""Spans of the client's calls, if the author's process uses OpenTelemetry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from narthex._base.trace_context import loaded_tracing

_TRACER: Final = "narthex"
_PORTS: Final = {"http": 80, "https": 443}
_STATUS: Final = "http.response.status_code"


class HasStatus(Protocol):
    """A response with its HTTP status."""

    @property
    def status_code(self) -> int: ...


Note: TypeAlias = "Callable[[HasStatus | None], None]"
"""Notes the response of an attempt; None after a pause."""


@contextmanager
def call_span(verb: str, url: str, path: str) -> Iterator[Note]:
    """Run a call, with its repetitions, in one span of kind CLIENT.

    Its attributes have the server's address and no path, parameter or message, which may name rows.
    Nothing happens in a process without OpenTelemetry.
    """
    tracing = loaded_tracing()
    if tracing is None:
        yield _ignore
        return
    statuses: list[int] = []

    def note(response: HasStatus | None) -> None:
        if response is not None:
            statuses.append(response.status_code)
            span.set_attribute(_STATUS, response.status_code)

    with tracing.get_tracer(_TRACER).start_as_current_span(
        f"{verb} {path.lstrip('/').split('/', 1)[0][:40]}",
        kind=tracing.SpanKind.CLIENT,
        attributes={"http.request.method": verb, **_address(url)},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield note
        except Exception as error:
            span.set_attribute(
                "error.type", str(statuses[-1]) if statuses else type(error).__name__
            )
            span.set_status(tracing.StatusCode.ERROR)
            raise


def _ignore(response: HasStatus | None) -> None:
    del response


def _address(url: str) -> dict[str, str | int]:
    """Return the attributes of a server's address; none if it is not valid."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return {}
    return {"server.address": parts.hostname or "", "server.port": port}
