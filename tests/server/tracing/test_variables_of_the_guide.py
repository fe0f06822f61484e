"""The variables that the page on traces exports send spans to a collector, and a share of them."""

import os
from typing import Final

import pytest

from narthex_server.tracing import start_tracing
from tests.guides.pages import blocks, pages_with
from tests.guides.terminal import Terminal
from tests.server.tracing.collector import Collector, collecting

REQUESTS: Final = 1500
"""So many that a share of 0.01 has some with certainty, and less than the queue of spans has."""

CALLER: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def sent(collector: Collector, requests: int, traceparent: str = "") -> int:
    """Trace requests with the variables of this process; return how many spans arrived."""
    before = len(collector.spans)
    tracing = start_tracing(os.environ, service="narthex-server")
    assert tracing is not None
    for _ in range(requests):
        with tracing.serving("GET", traceparent, {}):
            pass
    tracing.end()
    return len(collector.spans) - before


def test_the_variables_of_the_page_send_spans_and_then_a_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (page,) = pages_with("sh traces")
    endpoint, sampler = blocks(page, "sh traces")
    for name in [one for one in os.environ if one.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    assert start_tracing(os.environ, service="narthex-server") is None

    with collecting() as collector:
        terminal = Terminal(
            monkeypatch=monkeypatch,
            placeholders={"http://collector.example:4318": lambda _: collector.url},
        )
        terminal.types(endpoint)
        every = sent(collector, REQUESTS)
        terminal.types(sampler)
        share = sent(collector, REQUESTS)
        of_callers = sent(collector, 10, CALLER)

    assert every == REQUESTS
    assert 0 < share < REQUESTS / 20
    assert of_callers == 10
    assert {one.service for one in collector.spans} == {"narthex-server"}
