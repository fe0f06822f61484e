"""A collector receives one trace of a call: of the client, of the server, of what it waits for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import httpx
import pytest

from narthex.settings import environment_of
from narthex_server.app import make_app
from narthex_server.tracing import start_tracing
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import NOBODY, TOKEN, House, house_at, in_memory, settings_at
from tests.server.listening import listening
from tests.server.reads.test_reads import Reads, reads
from tests.server.tracing.collector import Collector, ReceivedSpan, collecting

__all__ = ["reads"]

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
SERVER, CLIENT = 2, 3
STARTS_S = 60.0
ENDS_S = 8.0
AUTHOR = "an-author"
BEFORE_PROMOTION = ("compile", "plan", "create asset", "store: create", "commit point")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@contextmanager
def read_process(
    reads: Reads, environment: Mapping[str, str]
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a read process of the same installation; yield its address, and the process."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = attrs.evolve(reads.house.services.settings, reads_url=url, sandbox="reduced")
    process = subprocess.Popen(
        [sys.executable, "-m", "narthex_server.reads"],
        env={**os.environ, **environment_of(settings), **environment},
        cwd=ROOT,
    )
    try:
        ends_at = time.monotonic() + STARTS_S
        while not _is_up(url):
            assert process.poll() is None, "the read process has ended"
            assert time.monotonic() < ends_at
            time.sleep(0.1)
        yield url, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STARTS_S)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=60.0).is_success
    except httpx.TransportError:
        return False


def call_as_author(call: str, url: str, collector: Collector) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.tracing.author_calls", call, url, TOKEN],
        env={**os.environ, **collector.environment(), "OTEL_SERVICE_NAME": AUTHOR},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def only(spans: Sequence[ReceivedSpan], name: str) -> ReceivedSpan:
    (found,) = [one for one in spans if one.name == name]
    return found


def test_a_query_is_one_trace_through_client_and_read_process(
    reads: Reads, collector: Collector
) -> None:
    with read_process(reads, collector.environment()) as (url, _):
        call_as_author("query", url, collector)
        spans = collector.wait_for("author", "POST query", "POST /api/v1/query")

    author, sent = only(spans, "author"), only(spans, "POST query")
    served, called = only(spans, "POST /api/v1/query"), only(spans, "call author code")
    looked_up = only(spans, "look up")
    assert {one.trace_id for one in spans} == {author.trace_id}
    assert sent.parent_id == author.span_id
    assert served.parent_id == sent.span_id
    assert {called.parent_id, looked_up.parent_id} == {served.span_id}
    assert (sent.kind, served.kind) == (CLIENT, SERVER)
    assert (sent.service, served.service) == (AUTHOR, "narthex-reads")
    assert sent.attributes["http.response.status_code"] == 200
    assert sent.attributes["server.port"] == int(url.rpartition(":")[2])
    assert served.attributes["http.route"] == "/api/v1/query"


def test_a_refused_call_fails_the_span_of_the_client(reads: Reads, collector: Collector) -> None:
    with read_process(reads, collector.environment()) as (url, _):
        call_as_author("refused", url, collector)
        spans = collector.wait_for("POST query", "POST /api/v1/query")

    sent = only(spans, "POST query")
    status = sent.attributes["http.response.status_code"]
    assert isinstance(status, int)
    assert 400 <= status < 500
    assert sent.attributes["error.type"] == str(status)
    assert (sent.status_message, sent.has_events) == ("", False)


@pytest.mark.parametrize("is_whole_server", [False, True])
def test_spans_of_the_last_calls_are_sent_when_a_process_ends(
    reads: Reads, collector: Collector, monkeypatch: pytest.MonkeyPatch, *, is_whole_server: bool
) -> None:
    late = collector.environment() | {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
    token = {"authorization": f"Bearer {TOKEN}"}
    if is_whole_server:
        for name, value in late.items():
            monkeypatch.setenv(name, value)
        tracing = start_tracing(os.environ, service="narthex-server")
        services = attrs.evolve(reads.house.services, tracing=tracing)
        (port,) = free_ports(1)
        with listening(make_app(services), port):
            httpx.get(f"http://127.0.0.1:{port}/api/v1/commits", headers=token, timeout=60.0)
            before = len(collector.spans)
    else:
        with read_process(reads, late) as (url, _):
            httpx.post(f"{url}/api/v1/query", content=b"{}", headers=token, timeout=60.0)
            before = len(collector.spans)

    assert before == 0
    assert [one.kind for one in collector.spans] == [SERVER]


def test_a_collector_that_does_not_answer_delays_neither_calls_nor_the_end(reads: Reads) -> None:
    question = {"inputs": ["Card.card"], "outputs": ["Card.city"], "data": {"Card.card": ["a"]}}
    with (
        collecting(is_silent=True) as silent,
        read_process(reads, silent.environment()) as (url, process),
        httpx.Client(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60.0) as client,
    ):
        client.post(f"{url}/api/v1/query", json=question)
        ends_at = time.monotonic() + STARTS_S
        while not silent.calls:
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        began = time.monotonic()
        statuses = {
            client.post(f"{url}/api/v1/query", json=question).status_code for _ in range(50)
        }
        took_s = time.monotonic() - began
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(STARTS_S)
        ended_s = time.monotonic() - began

    assert statuses == {200}
    assert took_s < ENDS_S
    assert ended_s < ENDS_S


@pytest.fixture
def traced(
    tmp_path: Path, ledger_dsn: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    """A server whose stores are in memory, and whose traces go to the collector."""
    for name, value in collector.environment().items():
        monkeypatch.setenv(name, value)
    tracing = start_tracing(os.environ, service="narthex-server")
    assert tracing is not None
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory(), tracing=tracing) as made:
        yield made
    tracing.end()


def test_the_steps_of_a_commit_are_in_the_trace_of_its_call(
    traced: House, collector: Collector
) -> None:
    (port,) = free_ports(1)
    with listening(make_app(traced.services), port):
        call_as_author("commit", f"http://127.0.0.1:{port}", collector)
        spans = collector.wait_for("author", "POST /api/v1/commit", *BEFORE_PROMOTION)

    author, served = only(spans, "author"), only(spans, "POST /api/v1/commit")
    made = [one for one in spans if one.name == "create asset"]
    in_stores = [one for one in spans if one.name == "store: create"]
    assert served.parent_id == only(spans, "POST commit").span_id
    assert only(spans, "compile").parent_id == served.span_id
    assert {one.trace_id for one in (served, *made, *in_stores)} == {author.trace_id}
    assert {one.parent_id for one in made} == {served.span_id}
    assert {one.parent_id for one in in_stores} <= {one.span_id for one in made}
    assert {"kafka_topic", "index"} <= {one.attributes["narthex.asset.kind"] for one in made}
