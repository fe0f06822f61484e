"""Calls of tasks join the trace of the call that made their commit."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import attrs
import pytest
from typing_extensions import override

from tests.plugins.conftest import Ask

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OWN_TRACE = "11111111111111111111111111111111"

_STEP = """
import json
from types import SimpleNamespace
from airflow.sdk.execution_time.context import set_current_context
from opentelemetry import baggage, context, trace
from narthex_plugins.operators import take_step
given = json.loads({given!r})
context.attach(baggage.set_baggage("user", "ada"))
if given["has_own_span"]:
    own = trace.SpanContext(int("1" * 32, 16), 2, False, trace.TraceFlags(1))
    context.attach(trace.set_span_in_context(trace.NonRecordingSpan(own)))
with set_current_context(dict(dag_run=SimpleNamespace(conf=given["conf"]))):
    answer = take_step("7", "ready", within_s=5.0)
"""

_OUTSIDE = """
from narthex_plugins.platform_client import platform
answer = platform().read("commits/7")
"""


@attrs.define
class Received:
    """The headers of the calls that a server received."""

    url: str = ""
    headers: list[Mapping[str, str]] = attrs.field(factory=list)


@pytest.fixture
def received() -> Iterator[Received]:
    made = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST  # noqa: N815

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


def environment(received: Received, home: Path) -> dict[str, str]:
    connection = {"conn_type": "narthex", "host": received.url, "password": "a-token"}
    return {"NARTHEX_HOME": str(home), "AIRFLOW_CONN_NARTHEX_DEFAULT": json.dumps(connection)}


@pytest.mark.parametrize(
    ("conf", "has_own_span", "trace"),
    [
        ({"traceparent": TRACEPARENT}, True, TRACEPARENT),
        ({"commit_id": "7"}, True, f"00-{OWN_TRACE}-0000000000000002-01"),
        ({"traceparent": TRACEPARENT + "\r\nx-narthex-actor: root"}, False, None),
        ({"traceparent": 7}, False, None),
        (None, False, None),
    ],
    ids=["of the commit", "of Airflow", "forged", "not a text", "none"],
)
def test_a_step_joins_the_trace_of_its_run(
    ask: Ask,
    received: Received,
    tmp_path: Path,
    conf: object,
    *,
    has_own_span: bool,
    trace: str | None,
) -> None:
    given = json.dumps({"conf": conf, "has_own_span": has_own_span})

    ask(_STEP.format(given=given), **environment(received, tmp_path))

    (headers,) = received.headers
    assert headers.get("traceparent") == trace
    assert "baggage" not in headers
    assert "x-narthex-actor" not in headers


def test_a_call_outside_of_a_task_has_no_trace(
    ask: Ask, received: Received, tmp_path: Path
) -> None:
    ask(_OUTSIDE, **environment(received, tmp_path))

    (headers,) = received.headers
    assert "traceparent" not in headers
