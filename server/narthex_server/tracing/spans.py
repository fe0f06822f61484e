"""Spans, which begin only where a traced request or commit is being carried out.

The tracer travels with the context of the running code. Without one, `span` returns a shared
object that does nothing, so code outside of traces pays for one look at a variable.

No span has a message, a row, a key, a text of an author, or a part of an address: all of them may
contain data. Errors are recorded by the names of their classes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Final, TypeAlias, TypeVar

import attrs
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from narthex._base import TRACEPARENT

GREATEST_NAME: Final = 200
"""How many characters of a name are recorded."""

_GREATEST_TRACEPARENT: Final = 256

_Result = TypeVar("_Result")

Attributes: TypeAlias = Mapping[str, str | int]

_TRACER: Final[ContextVar[Tracer | None]] = ContextVar("narthex_tracer", default=None)
_W3C: Final = TraceContextTextMapPropagator()
_NOTHING: Final = nullcontext()


@attrs.frozen(kw_only=True)
class Tracing:
    """Begins traces, and joins those of callers.

    Attributes:
        tracer: Begins spans.
        end: Sends the spans that are not sent yet; it returns within a few seconds in any case.
    """

    tracer: Tracer
    end: Callable[[], None] = attrs.field(repr=False)

    @contextmanager
    def serving(self, name: str, traceparent: str, attributes: Attributes) -> Iterator[Span]:
        """Run a request in a span of kind SERVER, in the trace that its header names.

        A header that is not valid begins a trace of its own.
        """
        with (
            self._entered(),
            self.tracer.start_as_current_span(
                name,
                context=_remote(traceparent),
                kind=SpanKind.SERVER,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as serving,
        ):
            yield serving

    @contextmanager
    def continuing(self, traceparent: str) -> Iterator[None]:
        """Let spans begin in the trace that a header named before; without a valid one, none."""
        remote = _remote(traceparent)
        if not trace.get_current_span(remote).get_span_context().is_valid:
            yield
            return
        token = attach(remote)
        try:
            with self._entered():
                yield
        finally:
            detach(token)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        token = _TRACER.set(self.tracer)
        try:
            yield
        finally:
            _TRACER.reset(token)


def span(name: str, attributes: Attributes | None = None) -> AbstractContextManager[None]:
    """Run code in a span of the current trace, if there is one.

    Args:
        name: One of a few; never a text of a caller.
        attributes: Texts are truncated to `GREATEST_NAME` characters.
    """
    tracer = _TRACER.get()
    return _NOTHING if tracer is None else _inner(tracer, name, attributes or {})


def is_traced() -> bool:
    """Return whether a traced request or commit is being carried out, recorded or not."""
    return _TRACER.get() is not None


def is_recording() -> bool:
    """Return whether the current trace is recorded."""
    return _TRACER.get() is not None and trace.get_current_span().is_recording()


def carried(work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Return work that continues the current trace in another thread."""
    if _TRACER.get() is None:
        return work
    context = copy_context()
    return lambda: context.run(work)


@contextmanager
def _inner(tracer: Tracer, name: str, attributes: Attributes) -> Iterator[None]:
    with tracer.start_as_current_span(
        name,
        attributes={key: _bounded(value) for key, value in attributes.items()},
        record_exception=False,
        set_status_on_exception=False,
    ) as begun:
        try:
            yield
        except Exception as error:
            begun.set_attribute("error.type", type(error).__name__)
            begun.set_status(StatusCode.ERROR)
            raise


def _bounded(value: str | int) -> str | int:
    return value[:GREATEST_NAME] if isinstance(value, str) else value


def _remote(traceparent: str) -> Context:
    """Return a context with the span that a header names, and nothing else: no baggage."""
    carrier = {TRACEPARENT: traceparent} if len(traceparent) <= _GREATEST_TRACEPARENT else {}
    return _W3C.extract(carrier, context=Context())
