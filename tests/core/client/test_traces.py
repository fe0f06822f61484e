"""The client joins the trace of its process, and loads nothing for that."""

import asyncio
import json
import subprocess
import sys

import pandas as pd
import pytest
from opentelemetry import baggage, context, trace

from narthex._server_calls.call_spans import call_span
from narthex.client import AsyncClient, Client
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
ROWS = pd.DataFrame({"card": ["a"]})


@pytest.fixture(autouse=True)
def span() -> trace.SpanContext:
    """Run each test in a span of the calling process, with baggage."""
    found = trace.SpanContext(
        TRACE,
        SPAN,
        is_remote=False,
        trace_flags=trace.TraceFlags(1),
        trace_state=trace.TraceState([("vendor", "x")]),
    )
    inside = trace.set_span_in_context(trace.NonRecordingSpan(found))
    token = context.attach(baggage.set_baggage("user", "ada", inside))
    yield found
    context.detach(token)


def test_a_call_names_the_span_of_its_process_and_carries_nothing_else(stub: Stub) -> None:
    stub.answer("log", {})

    Client(stub.url).log("bank", "owners", ROWS)

    (call,) = stub.calls
    assert call.headers["traceparent"] == f"00-{TRACE:032x}-{SPAN:016x}-01"
    assert not {"baggage", "tracestate"} & call.headers.keys()


def test_the_asynchronous_client_does_the_same(stub: Stub) -> None:
    stub.answer("log", {})

    async def pushed() -> None:
        async with AsyncClient(stub.url) as client:
            await client.log("bank", "owners", ROWS)

    asyncio.run(pushed())

    (call,) = stub.calls
    assert call.headers["traceparent"] == f"00-{TRACE:032x}-{SPAN:016x}-01"
    assert "baggage" not in call.headers


def test_a_call_outside_of_a_span_has_no_trace(stub: Stub) -> None:
    stub.answer("log", {})
    token = context.attach(context.Context())

    Client(stub.url).log("bank", "owners", ROWS)
    context.detach(token)

    (call,) = stub.calls
    assert "traceparent" not in call.headers


@pytest.mark.parametrize("url", ["http://[", "http://n.example:x", "", "n.example"])
def test_an_address_that_is_not_valid_fails_no_span(url: str) -> None:
    with call_span("GET", url, "commits/7?key=x") as note:
        note(None)


_PROCESS = """
import json, sys
from narthex.client import Client
Client({url!r}).read("commits")
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "opentelemetry"]))
"""


def test_a_process_without_opentelemetry_does_not_import_it(stub: Stub) -> None:
    stub.answer("commits", {})
    program = _PROCESS.format(url=stub.url)

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert json.loads(done.stdout) == [], done.stderr
    (call,) = stub.calls
    assert "traceparent" not in call.headers
