# ruff: noqa: ANN001, ANN201, ARG002, N805
"""Each request has one span of kind SERVER, with what it waited for below, and no data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import Receive, Scope, Send

from narthex._ir import AssetKind
from narthex._sdk.commit_definitions import definitions
from narthex.featuresets import extractor, featureset
from narthex.lib import inputs, outputs
from narthex_server.tracing import TracedRequests
from narthex_stores import index_store
from tests.server.calling import PlainClient
from tests.server.conftest import NOBODY, House, house_at, settings_at
from tests.server.conftest import in_memory as stores
from tests.server.driving import serve
from tests.server.reads.test_reads import QUESTION, Card, Owners
from tests.server.tracing.recorded import (
    Recorded,
    id_of,
    only_of_callers,
    parent_of,
    recorded,
    trace_of,
)

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

__owner__ = "tests@narthex.dev"

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
CODE = {"outputs": ["Card.length"]}


@featureset
class Broken:
    """The features of a card, by code that fails."""

    card: str
    length: int

    @extractor
    @inputs("card")
    @outputs("length")
    def measure_badly(cls, ts, card):
        raise ValueError(f"card {card[0]}")


@pytest.fixture
def traces() -> Recorded:
    return recorded()


@pytest.fixture
def house(tmp_path: Path, ledger_dsn: str, traces: Recorded) -> Iterator[House]:
    """A server that serves cards, and records its traces."""
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    adapters = stores() | {AssetKind.INDEX: index_store(settings).adapter()}
    with house_at(settings, adapters=adapters, tracing=traces.tracing) as made:
        serve(made, definitions([Owners], [Card, Broken]))
        traces.spans()
        yield made


def query(house: House, headers: dict[str, str] | None = None, **more: Any) -> Any:
    answer = house.client.post("/api/v1/query", json=QUESTION | more, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_query_has_a_span_below_its_callers_and_one_for_each_index(
    house: House, traces: Recorded
) -> None:
    query(house, {"traceparent": TRACEPARENT})

    looked_up, served = traces.spans()
    assert (served.name, served.kind) == ("POST /api/v1/query", SpanKind.SERVER)
    assert (trace_of(served), parent_of(served)) == (TRACE, CALLER)
    assert dict(served.attributes) == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "http.route": "/api/v1/query",
        "http.response.status_code": 200,
    }
    assert (looked_up.name, parent_of(looked_up)) == ("look up", id_of(served))
    assert dict(looked_up.attributes) == {"narthex.dataset": "Owners", "narthex.keys": 2}


def test_author_code_has_a_span_in_the_trace_of_its_query(house: House, traces: Recorded) -> None:
    query(house, **CODE)

    looked_up, called, served = traces.spans()
    assert called.name == "call author code"
    assert dict(called.attributes) == {"narthex.code.kind": "extract", "narthex.rows": 2}
    assert [parent_of(one) for one in (looked_up, called)] == [id_of(served)] * 2
    assert parent_of(served) == ""


def test_a_lookup_names_the_template_of_its_path(house: House, traces: Recorded) -> None:
    answer = house.client.post("/api/v1/dataset/Owners/lookup", json={"keys": [{"card": "a"}]})

    looked_up, served = traces.spans()
    assert answer.status_code == 200
    assert served.attributes["http.route"] == "/api/v1/dataset/{name}/lookup"
    assert parent_of(looked_up) == id_of(served)


def test_a_route_of_the_control_plane_has_the_template_of_its_path(
    house: House, traces: Recorded
) -> None:
    house.client.get("/api/v1/commits/00000000-0000-8000-8000-000000000000?key=of-a-person")

    (served,) = traces.spans()
    assert served.name == "GET /api/v1/commits/{commit_id}"
    assert served.attributes["http.response.status_code"] == 404
    assert served.status.status_code is StatusCode.UNSET
    assert "of-a-person" not in served.to_json()


def test_refused_and_unknown_calls_have_spans_without_texts_of_callers(
    house: House, traces: Recorded
) -> None:
    stranger = PlainClient(house.client.app)
    stranger.post("/api/v1/query", json=QUESTION, headers={"authorization": "Bearer of-a-person"})
    stranger.request("FROBNICATE", "/nowhere/of-a-person")

    refused, unknown = traces.spans()
    assert (refused.name, refused.attributes["http.response.status_code"]) == (
        "POST /api/v1/query",
        401,
    )
    assert unknown.name == "_OTHER"
    assert "http.route" not in unknown.attributes
    for span in (refused, unknown):
        assert "of-a-person" not in span.to_json()
        assert "FROBNICATE" not in span.to_json()


def test_an_invalid_query_leaves_no_value_in_its_span(house: House, traces: Recorded) -> None:
    answer = house.client.post("/api/v1/query", json=QUESTION | {"as_of": "the day of a person"})

    (served,) = traces.spans()
    assert answer.status_code == 400
    assert "of a person" not in served.to_json()


def test_failing_author_code_has_a_failed_span_without_its_message(
    house: House, traces: Recorded
) -> None:
    broken = {"outputs": ["Broken.length"], "inputs": ["Broken.card"]}

    answer = house.client.post(
        "/api/v1/query", json=QUESTION | broken | {"data": {"Broken.card": ["of-a-person"]}}
    )

    called, served = traces.spans()
    assert answer.status_code == 422
    assert "of-a-person" in answer.json()["err_msg"]
    assert called.attributes["error.type"] == "UserCodeError"
    assert called.status.status_code is StatusCode.ERROR
    for span in (called, served):
        assert span.events == ()
        assert "of-a-person" not in span.to_json()
        assert "measure_badly" not in span.to_json()


def test_health_and_metrics_have_no_spans(house: House, traces: Recorded) -> None:
    assert house.client.get("/healthz").status_code == 200
    assert house.client.get("/api/v1/metrics").status_code == 200

    assert traces.spans() == ()


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": ""},
        {"traceparent": "00-" + "0" * 32 + f"-{CALLER}-01"},
        {"traceparent": f"ff-{TRACE}-{CALLER}-01"},
        {"traceparent": f"00-{TRACE.upper()}-{CALLER}-01"},
        {"traceparent": TRACEPARENT + "-more"},
        {"traceparent": f"cc-{TRACE}-{CALLER}-01-" + "x" * 9000},
        {"traceparent": "\xff\x00'; DROP TABLE".encode("latin-1").replace(b"\x00", b"\x01")},
    ],
    ids=["empty", "zero", "version", "capitals", "longer", "too long", "bytes"],
)
def test_an_invalid_traceparent_begins_a_trace_of_its_own(
    house: House, traces: Recorded, headers: dict[str, Any]
) -> None:
    answered = query(house, headers)

    served = traces.spans()[-1]
    assert answered == {"Card.city": ["nowhere", "nowhere"]}
    assert (trace_of(served) == TRACE, parent_of(served)) == (False, "")


def test_two_headers_name_no_caller(house: House, traces: Recorded) -> None:
    answer = house.client.post(
        "/api/v1/query",
        json=QUESTION,
        headers=[("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
    )

    assert answer.status_code == 200
    assert parent_of(traces.spans()[-1]) == ""


def test_tracestate_and_baggage_of_a_caller_change_nothing(house: House, traces: Recorded) -> None:
    hostile = {
        "traceparent": TRACEPARENT,
        "tracestate": "=,,==" * 2000,
        "baggage": "user=of-a-person," * 500,
    }

    answered = query(house, hostile)

    looked_up, served = traces.spans()
    assert answered == {"Card.city": ["nowhere", "nowhere"]}
    assert (trace_of(served), parent_of(served)) == (TRACE, CALLER)
    for span in (looked_up, served):
        assert not span.context.trace_state
        assert "of-a-person" not in span.to_json()


def test_baggage_is_not_in_the_context_of_a_request(traces: Recorded) -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        seen.append(dict(baggage.get_all()))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    client = PlainClient(TracedRequests(app, tracing=traces.tracing))
    client.get("/", headers={"traceparent": TRACEPARENT, "baggage": "user=ada"})

    assert seen == [{}]


def test_an_unexpected_failure_is_an_error_without_its_message(traces: Recorded) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send
        raise RuntimeError("a row of a person")

    client = PlainClient(TracedRequests(app, tracing=traces.tracing), raise_server_exceptions=False)
    client.get("/")

    (served,) = traces.spans()
    assert served.attributes["http.response.status_code"] == 500
    assert served.attributes["error.type"] == "500"
    assert served.status.status_code is StatusCode.ERROR
    assert "a row of a person" not in served.to_json()


def test_a_trace_that_the_caller_does_not_record_is_not_recorded(
    tmp_path: Path, ledger_dsn: str
) -> None:
    traces = recorded(sampler=only_of_callers())
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=stores(), tracing=traces.tracing) as house:
        for flag in ("00", "01"):
            house.client.get(
                "/api/v1/commits", headers={"traceparent": f"00-{TRACE}-{CALLER}-{flag}"}
            )
        house.client.get("/api/v1/commits")

    spans = traces.spans()
    assert [parent_of(one) for one in spans] == [CALLER]


def test_a_server_without_traces_begins_none(tmp_path: Path, ledger_dsn: str) -> None:
    settings = settings_at(tmp_path, dsn=ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=stores()) as house:
        names = [str(one.cls) for one in house.client.app.user_middleware]  # type: ignore[attr-defined]

    assert any("Measured" in name for name in names)
    assert not any("Traced" in name for name in names)
