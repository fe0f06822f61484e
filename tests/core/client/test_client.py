"""The client speaks the server's REST, and gives back what callers of Fennel's client expect."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional
from urllib.parse import parse_qsl, urlsplit

import attrs
import numpy as np
import pandas as pd
import pytest
from typing_extensions import override

from narthex._base import to_plain
from narthex._formats import render_positions
from narthex._formats.pandas.frames import columns_of, frame_of_columns, frame_of_rows, rows_of
from narthex._formats.wire import decode_commit
from narthex._ir.types import Date, Datetime, Float, Int, Str
from narthex._ir.types import Decimal as DecimalType
from narthex._ir.types import Optional as OptionalType
from narthex.client import Client
from narthex.connectors import Webhook, source
from narthex.datasets import dataset, field
from narthex.errors import (
    AnswerNotUnderstood,
    ArgumentsUnfit,
    ColumnNotFound,
    CommitFailed,
    DefinitionErrors,
    NotYetSupported,
    Refused,
    RowsNotContained,
    Unreachable,
)
from narthex.featuresets import feature, featureset
from narthex.lib import meta


@source(Webhook("shop").endpoint("users"), disorder="1h", cdc="upsert")
@meta(owner="a@b.co")
@dataset(index=True)
class Users:
    uid: int = field(key=True)
    age: int
    seen: datetime


@meta(owner="a@b.co")
@featureset
class Person:
    uid: int
    age: Optional[int] = feature(Users.age)  # noqa: UP045
    seen: Optional[datetime] = feature(Users.seen)  # noqa: UP045


@attrs.define
class Call:
    verb: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@attrs.define
class Stub:
    """A server with prepared answers, in order; it records its requests."""

    url: str = ""
    calls: list[Call] = attrs.field(factory=list)
    answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = attrs.field(factory=dict)

    def answer(self, path: str, *bodies: Any, status: int = 200, **headers: str) -> None:
        self.answers[path] = [
            (status, body, {k.replace("_", "-"): v for k, v in headers.items()}) for body in bodies
        ]

    def next_of(self, path: str) -> tuple[int, Any, dict[str, str]]:
        queued = self.answers.get(path)
        if not queued:
            return 404, {"err_msg": f"nothing at {path}"}, {}
        return queued.pop(0) if len(queued) > 1 else queued[0]


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            headers = {k.lower(): v for k, v in self.headers.items()}
            path = parts.path.removeprefix("/api/v1/")
            made.calls.append(Call(self.command, path, dict(parse_qsl(parts.query)), headers, body))
            status, answer, extra = made.next_of(path)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            for name, value in extra.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

        @override
        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def client(stub: Stub) -> Iterator[Client]:
    made = Client(stub.url, "t0ken", "dev", pause_s=0.0)
    yield made
    made.close()


def _read(commit: str, *, as_of: int = 1_767_322_800_000_000) -> dict[str, str]:
    return {
        "x-narthex-read": json.dumps({"commit_id": commit, "serving_seq": 1, "as_of": as_of}),
    }


def _answers(stub: Stub, *parts: tuple[list[int], str]) -> None:
    """Refuse a query of more than two rows, then answer its parts."""
    refusal = {"err_msg": "too large", "detail": {"greatest_rows": 2}}
    stub.answers["query"] = [
        (413, refusal, {}),
        *((200, {"Person.age": ages}, _read(commit)) for ages, commit in parts),
    ]


def test_a_query_that_is_too_large_is_asked_in_parts_as_of_one_instant(
    stub: Stub, client: Client
) -> None:
    _answers(stub, ([1, 2], "c1"), ([3, 4], "c1"), ([5], "c1"))

    found, read = client.query_columns(
        ["Person.uid"], ["Person.age"], {"Person.uid": [1, 2, 3, 4, 5]}, after="p"
    )

    assert found == {"Person.age": [1, 2, 3, 4, 5]}
    assert read["commit_id"] == "c1"
    bodies = [call.json for call in stub.calls[1:]]
    assert [body["data"]["Person.uid"] for body in bodies] == [[1, 2], [3, 4], [5]]
    assert [body.get("after") for body in bodies] == ["p", None, None]
    assert [body.get("as_of") for body in bodies] == [None, *["2026-01-02T03:00:00.000000Z"] * 2]


def test_parts_of_different_commits_are_asked_again(stub: Stub, client: Client) -> None:
    _answers(stub, ([1, 2], "c1"), ([9], "c2"), ([7, 8], "c2"), ([9], "c2"))

    found, read = client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1, 2, 3]})

    assert found == {"Person.age": [7, 8, 9]}
    assert read["commit_id"] == "c2"


def test_a_query_whose_features_alone_are_too_many_is_refused(stub: Stub, client: Client) -> None:
    stub.answer("query", {"err_msg": "no", "detail": {"greatest_rows": 0}}, status=413)

    with pytest.raises(Refused, match="no"):
        client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1]})


def test_a_request_that_an_overloaded_server_refused_is_sent_again(
    stub: Stub, client: Client
) -> None:
    busy = (429, {"err_msg": "too many"}, {"retry-after": "0"})
    stub.answers["query"] = [busy, busy, (200, {"Person.age": [1]}, {})]

    found, _ = client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1]})

    assert found == {"Person.age": [1]}


def test_an_overload_that_lasts_is_an_error(stub: Stub, client: Client) -> None:
    stub.answer("query", {"err_msg": "too many"}, status=429, retry_after="0")

    with pytest.raises(Refused, match="too many"):
        client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1]})
    assert len(stub.calls) == 3


def test_a_commit_travels_whole_and_is_waited_for(stub: Stub, client: Client) -> None:
    stub.answer(
        "commit", {"commit_id": "c1", "state": "QUEUED", "summary": ["+ Users"]}, status=202
    )
    stuck = {"label": "Users", "state": "creating", "last_error": "no broker"}
    stub.answer(
        "commits/c1",
        {"state": "QUEUED", "promotion": None, "waits_for": ["commit c0 to end"]},
        {"state": "APPLYING", "promotion": "PENDING", "assets": [{"state": "live"}, {}]},
        {"state": "APPLYING", "promotion": "PENDING", "assets": [{"state": "live"}, stuck]},
        {"state": "COMMITTED", "promotion": "PENDING", "waits_for": ["Users: not backfilled"]},
        {"state": "COMMITTED", "promotion": "PENDING", "waits_for": [*"abcde"]},
        {"state": "COMMITTED", "promotion": "PENDING", "waits_for": []},
        {"state": "COMMITTED", "promotion": "DONE", "waits_for": []},
        {"state": "FINALIZED", "promotion": "DONE", "commit_id": "c1"},
    )
    told: list[str] = []

    answer = client.commit("first", [Users], [Person], tell=told.append)

    assert (answer.status_code, answer["status_code"], answer.json()["state"]) == (
        200,
        200,
        "FINALIZED",
    )
    assert told == [
        "+ Users",
        "queued: waits for commit c0 to end",
        "creating assets, 1 of 2 live",
        "creating assets, 1 of 2 live; retrying: Users: no broker",
        "committed: waits for Users: not backfilled",
        "committed: waits for a; b; c; d …",
        "committed: readers are about to flip",
        "finalized",
    ]
    sent = stub.calls[0]
    payload = decode_commit(sent.body)
    assert [d.name for d in payload.definitions.datasets] == ["Users"]
    assert payload.message == "first"
    assert sent.parameters == {"preview": "false", "incremental": "false", "backfill": "true"}
    assert sent.headers["authorization"] == "Bearer t0ken"
    assert sent.headers["x-narthex-branch"] == "dev"
    assert len(sent.headers["idempotency-key"]) == 32


def test_a_preview_gives_the_plan_and_waits_for_nothing(stub: Stub, client: Client) -> None:
    stub.answer("commit", {"plan": {"create": 3}, "summary": []})

    answer = client.commit("look", [Users], [Person], preview=True)

    assert answer["plan"] == {"create": 3}
    assert len(stub.calls) == 1


def test_mistakes_are_reported_before_anything_is_sent(stub: Stub, client: Client) -> None:
    with pytest.raises(DefinitionErrors, match="Users"):
        client.commit("without its dataset", [], [Person])

    assert stub.calls == []


def test_mistakes_that_the_server_finds_are_raised_one_by_one(stub: Stub, client: Client) -> None:
    found = {"code": "NX202", "message": "m", "file": "f.py", "line": 3, "hint": "h"}
    stub.answer("commit", {"err_msg": "report", "errors": [found]}, status=400)

    with pytest.raises(DefinitionErrors) as raised:
        client.commit("x", [Users], [Person])

    (error,) = raised.value.exceptions_flat()
    assert isinstance(error, ColumnNotFound)
    assert error.plain() == found


@pytest.mark.parametrize(
    ("view", "says"),
    [
        ({"state": "ABORTED", "error": {"reason": "no space"}}, "aborted: no space"),
        ({"state": "REJECTED", "error": "stale_base"}, "rejected: stale_base"),
        ({"state": "COMMITTED", "promotion": "SUPERSEDED", "error": None}, "does not serve"),
        (
            {
                "state": "FINALIZED",
                "promotion": "SUPERSEDED",
                "approval": {"rejected": {"by": "grace", "reason": "too many"}},
            },
            "grace has rejected commit c1: too many",
        ),
    ],
)
def test_a_commit_that_ends_otherwise_is_an_error(
    stub: Stub, client: Client, view: dict[str, Any], says: str
) -> None:
    stub.answer("commit", {"commit_id": "c1"}, status=202)
    stub.answer("commits/c1", view)

    with pytest.raises(CommitFailed, match=says):
        client.commit("x", [Users], [Person], tell=lambda _: None)


BROKEN: dict[str, Any] = {
    "quality": [
        {"broken": [{"severity": "critical", "text": "critical: Orders.amount: 3 of 8 rows"}]},
        {"broken": [{"severity": "warning", "text": "warning: Users.country: 1 of 2 rows"}]},
    ]
}


@pytest.mark.parametrize("promotion", ["PENDING", "SUPERSEDED"])
def test_a_commit_that_breaks_critical_expectations_is_an_error_that_names_them(
    stub: Stub, client: Client, promotion: str
) -> None:
    stub.answer("commit", {"commit_id": "c1"}, status=202)
    stub.answer("commits/c1", {"state": "COMMITTED", "promotion": promotion} | BROKEN)

    with pytest.raises(CommitFailed, match=r"critical: Orders\.amount: 3 of 8 rows") as raised:
        client.commit("x", [Users], [Person], tell=lambda _: None)

    assert "Users.country" not in str(raised.value)


def test_broken_warnings_are_reported_when_readers_read_the_commit(
    stub: Stub, client: Client
) -> None:
    stub.answer("commit", {"commit_id": "c1"}, status=202)
    warned = {"quality": BROKEN["quality"][1:]}
    stub.answer("commits/c1", {"state": "FINALIZED", "promotion": "DONE"} | warned)
    told: list[str] = []

    client.commit("x", [Users], [Person], tell=told.append)

    assert told == ["finalized", "warning: Users.country: 1 of 2 rows"]


def test_a_commit_need_not_be_waited_for_for_ever(stub: Stub, client: Client) -> None:
    stub.answer("commit", {"commit_id": "c1"}, status=202)
    stub.answer("commits/c1", {"state": "PLANNED"})

    with pytest.raises(CommitFailed, match="has not finished after 0 s: planned"):
        client.commit("x", [Users], [Person], tell=lambda _: None, timeout_s=0.0)
    assert client.commit("x", [Users], [Person], wait=False).status_code == 202


def test_rows_are_awaited_no_longer_than_asked(stub: Stub, client: Client) -> None:
    late = "`Users` does not contain the rows yet: a job before it has 3 records to read"
    later = {"waits_for": late, "after": "1.y"}
    stub.answer("log/progress", later, later, {"waits_for": None, "after": "1.y"})
    told: list[str] = []

    client.wait_for_rows("1.x", tell=told.append)
    stub.answer("log/progress", later)
    with pytest.raises(RowsNotContained, match=f"not arrived after 0 s: {late}"):
        client.wait_for_rows("1.x", timeout_s=0.0)

    assert told == []
    assert [call.parameters["after"] for call in stub.calls] == ["1.x", "1.y", "1.y", "1.x"]


def test_rows_are_pushed_in_batches_as_plain_columns(stub: Stub, client: Client) -> None:
    stub.answer(
        "log",
        {"accepted": 2, "after": render_positions({"orders": {0: 5}})},
        {"accepted": 1, "after": render_positions({"orders": {1: 9}})},
    )
    frame = pd.DataFrame(
        {
            "n": np.array([1, 2, 3]),
            "x": [1.5, float("nan"), None],
            "s": ["a", None, pd.NA],
            "at": pd.to_datetime(["2020-01-01T00:00:00.5", None, "2020-01-02"], format="ISO8601"),
            "day": [date(2020, 1, 1)] * 3,
            "money": [Decimal("1.50")] * 3,
            "list": [[1, 2], np.array([3.5]), ()],
        }
    )

    answer = client.log("shop", "orders", frame, batch_size=2)

    assert answer is not None
    after = render_positions({"orders": {0: 5, 1: 9}})
    assert answer.json() == {"accepted": 1, "after": after}
    first, second = (call.json for call in stub.calls)
    assert first["webhook"] == "shop"
    assert first["data"] == {
        "n": [1, 2],
        "x": [1.5, None],
        "s": ["a", None],
        "at": ["2020-01-01T00:00:00.500000Z", None],
        "day": ["2020-01-01", "2020-01-01"],
        "money": ["1.50", "1.50"],
        "list": [[1, 2], [3.5]],
    }
    assert second["data"]["n"] == [3]
    keys = {call.headers["idempotency-key"] for call in stub.calls}
    assert len(keys) == 2
    assert client.log("shop", "orders", frame.iloc[:0]) is None


def test_refused_rows_are_an_error_that_names_them(stub: Stub, client: Client) -> None:
    stub.answer("log", {"err_msg": "row 3: no int", "errors": ["row 3: no int"]}, status=400)

    with pytest.raises(Refused, match="row 3: no int") as raised:
        client.log("shop", "orders", pd.DataFrame({"n": [1]}))

    assert raised.value.status_code == 400
    assert raised.value.is_users


READ = {"commit_id": "c1", "serving_seq": 4, "as_of": 7, "offsets": {"Users": {"t": {"0": 9}}}}


def test_answers_have_the_types_of_their_features(stub: Stub, client: Client) -> None:
    stub.answer(
        "query",
        {"Person.age": [3, None], "Person.seen": ["2020-01-01T00:00:00.000001Z", None]},
        x_narthex_read=json.dumps(READ),
    )
    given = pd.DataFrame({"Person.uid": [1, 2], "more": [0, 0]})

    frame = client.query([Person.uid], [Person], given, as_of=datetime(2020, 1, 2, tzinfo=UTC))

    assert frame["Person.age"].dtype == "Int64"
    assert frame["Person.age"].tolist() == [3, pd.NA]
    assert frame["Person.seen"][0] == pd.Timestamp("2020-01-01T00:00:00.000001Z")
    assert stub.calls[0].json == {
        "inputs": ["Person.uid"],
        "outputs": ["Person"],
        "data": {"Person.uid": [1, 2]},
        "as_of": "2020-01-02T00:00:00.000000Z",
    }
    assert client.last_read is not None
    assert client.last_read.plain() == READ
    assert client.last_read.offsets["Users"]["t"]["0"] == 9


def test_columns_can_be_queried_without_frames(stub: Stub, client: Client) -> None:
    stub.answer("query", {"Person.age": [3]}, x_narthex_read=json.dumps(READ))

    answers, read = client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1]})

    assert answers == {"Person.age": [3]}
    assert read == READ


def test_a_logged_query_sends_its_options(stub: Stub, client: Client) -> None:
    stub.answer("query", {"Person.age": [3]})
    frame = pd.DataFrame({"Person.uid": [1]})

    client.query(
        [Person.uid], [Person.age], frame, log=True, workflow="ranking", sampling_rate=0.25
    )

    asked = stub.calls[0].json
    assert {name: asked[name] for name in ("log", "workflow", "sampling_rate")} == {
        "log": True,
        "workflow": "ranking",
        "sampling_rate": 0.25,
    }


def test_questions_that_do_not_fit_are_refused_here(stub: Stub, client: Client) -> None:
    frame = pd.DataFrame({"Person.uid": [1]})

    with pytest.raises(ArgumentsUnfit, match=r"no column `Person\.age`; it has `Person\.uid`"):
        client.query([Person.age], [Person.seen], frame)
    with pytest.raises(ArgumentsUnfit, match="list those that you give"):
        client.query([Person], [Person.seen], frame)
    with pytest.raises(ArgumentsUnfit, match="is not a feature"):
        client.query([5], [Person.seen], frame)
    with pytest.raises(ArgumentsUnfit, match="neither feature nor featureset"):
        client.query([Person.uid], [5], frame)
    assert client.query([], [Person], frame).empty
    assert stub.calls == []


def test_a_lookup_gives_rows_and_which_were_found(stub: Stub, client: Client) -> None:
    stub.answer(
        "dataset/Users/lookup",
        {"found": [True, False], "data": {"uid": [1, 2], "age": [30, None]}},
    )
    keys = pd.DataFrame({"uid": [1, 2]})

    frame, found = client.lookup(Users, keys, timestamps=["2020-01-01T00:00:00Z"] * 2)

    assert found.tolist() == [True, False]
    assert frame["age"].tolist() == [30, pd.NA]
    assert stub.calls[0].json == {
        "keys": [{"uid": 1}, {"uid": 2}],
        "fields": [],
        "timestamps": ["2020-01-01T00:00:00Z"] * 2,
    }
    one, _ = client.lookup("Users", keys, fields=["age"])
    assert isinstance(one, pd.Series)


OFFLINE_TYPES = {"Person.uid": to_plain(Int()), "Person.age": to_plain(OptionalType(Int()))}
SPINE = pd.DataFrame(
    {
        "who": [1, 2],
        "at": pd.to_datetime(["2020-01-01", "2020-01-02"]),
        "label": [True, False],
        "weight": [0.5, None],
    }
)


def test_an_offline_query_waits_and_gives_the_frame_with_the_features(
    stub: Stub, client: Client
) -> None:
    running = {"status": "running", "rows": 2, "share": 0.5}
    stub.answer("query_offline", {"request_id": "q1", "status": "queued"})
    stub.answer("query_offline/status", running, {"status": "done", "types": OFFLINE_TYPES})
    stub.answer("query_offline/answers", {"Person.age": [1, None]})
    told: list[str] = []

    frame = client.query_offline(
        [Person.uid],
        ["Person.age"],
        "at",
        SPINE,
        feature_to_column_map={"Person.uid": "who"},
        tell=told.append,
    )

    sent = stub.calls[0].json
    assert sent["data"] == {
        "Person.uid": [1, 2],
        "at": ["2020-01-01T00:00:00.000000Z", "2020-01-02T00:00:00.000000Z"],
        "label": [True, False],
        "weight": [0.5, None],
    }
    assert sent["dtypes"]["label"] == "bool"
    assert list(SPINE.columns) == ["who", "at", "label", "weight"]
    assert list(frame.columns) == ["Person.uid", "at", "label", "weight", "Person.age"]
    assert list(map(str, frame.dtypes)) == [
        "Int64",
        "datetime64[ns, UTC]",
        "bool",
        "float64",
        "Int64",
    ]
    assert frame["Person.age"].tolist() == [1, pd.NA]
    assert frame.attrs["request_id"] == "q1"
    assert told == ["offline query q1: running, 50% of 2 rows", "offline query q1: done"]


def test_an_offline_query_is_fetched_later_as_the_same_frame(stub: Stub, client: Client) -> None:
    stub.answer("query_offline", {"request_id": "q1", "status": "queued"})
    stub.answer("query_offline/status", {"status": "done", "types": OFFLINE_TYPES})
    stub.answer("query_offline/answers", {"Person.age": [1, None]})
    names: dict[object, str] = {Person.uid: "who"}
    asked = client.query_offline(
        [Person.uid], [Person.age], "at", SPINE, feature_to_column_map=names
    )
    sent = stub.calls[0].json
    spine = {"columns": sent["data"], "timestamp_column": "at", "dtypes": sent["dtypes"]}
    stub.answer("query_offline/spine", spine)

    started = client.start_offline_query(
        [Person.uid], [Person.age], "at", SPINE, feature_to_column_map=names
    )
    fetched = client.offline_answers(started)

    assert started == "q1"
    pd.testing.assert_frame_equal(asked, fetched)


def test_arguments_without_an_effect_are_refused_together(stub: Stub, client: Client) -> None:
    frame = pd.DataFrame({"Person.uid": [1], "at": ["2024-01-01T00:00:00Z"]})

    with pytest.raises(NotYetSupported) as refused:
        client.query_offline(
            [Person.uid], [Person.age], "at", frame, workflow="w", use_v2=False, num_dpus=4
        )

    assert refused.value.message == (
        "`workflow`, `use_v2`, `num_dpus` of `query_offline` would have no effect"
    )
    assert refused.value.origin.file.endswith("test_client.py")
    assert stub.calls == []


def test_offline_queries_are_listed_tracked_and_cancelled(stub: Stub, client: Client) -> None:
    stub.answer("offline_queries", {"queries": [{"request_id": "q1"}]})
    stub.answer("query_offline/status", {"status": "done"})
    stub.answer("query_offline/cancel", {"status": "cancelled"})

    assert client.offline_queries(limit=1, before="q2") == [{"request_id": "q1"}]
    assert stub.calls[0].parameters == {"limit": "1", "before": "q2"}
    assert client.cancel_offline_query("q1")["status"] == "cancelled"
    assert client.track_offline_query("q1")["status"] == "done"


def test_a_wrong_spine_is_refused_with_all_its_problems(stub: Stub, client: Client) -> None:
    spine = pd.DataFrame({"Person.uid": [1, "x", None], "at": ["2020-01-01", "never", None]})

    with pytest.raises(ArgumentsUnfit) as refused:
        client.query_offline([Person.uid, Person.age], [Person.seen], "at", spine)

    assert stub.calls == []
    report = refused.value.message.splitlines()
    assert report[0] == "the spine has 5 problems"
    assert report[1].startswith("there is no column `Person.age`; there are `Person.uid`, `at`")
    assert [line.split(":")[0] for line in report[2:]] == [
        "row 1, `Person.uid`",
        "row 2, `Person.uid`",
        "row 1, `at`",
        "row 2, `at`",
    ]
    with pytest.raises(ArgumentsUnfit, match="there are no rows"):
        client.query_offline([Person.uid], [Person.age], "at", spine.iloc[:0])
    twice = pd.DataFrame([[1, 2]], columns=["at", "at"])
    with pytest.raises(ArgumentsUnfit, match="two columns are named `at`"):
        client.query_offline([], [Person.age], "at", twice)


def test_an_offline_query_accepts_offsets(stub: Stub, client: Client) -> None:
    stub.answer("query_offline", {"request_id": "q1"})
    stub.answer("query_offline/status", {"status": "done"})
    stub.answer("query_offline/answers", {"Person.age": [1]})

    found = client.query_offline_columns(
        ["Person.uid"],
        ["Person.age"],
        {"Person.uid": [1], "at": ["2020-01-01T00:00:00Z"], "offsets": ["{}"]},
        timestamp_column="at",
        offsets_column="offsets",
    )

    assert found == {"Person.age": [1]}
    assert stub.calls[0].json["offsets"] == "offsets"


def test_an_offline_query_is_asked_again_at_the_offsets_of_its_status(
    stub: Stub, client: Client
) -> None:
    offsets = {"Users": {"nx_users": {"0": 7}}}
    stub.answer("query_offline/status", {"status": "done", "offsets": offsets})
    stub.answer("query_offline", {"request_id": "q1"}, {"request_id": "q2"})
    stub.answer("query_offline/answers", {"Person.age": [1]})
    at = client.track_offline_query("q1")["offsets"]
    spine = {"Person.uid": [1], "at": ["2020-01-01T00:00:00Z"]}

    assert isinstance(at, dict)
    client.query_offline(["Person.uid"], ["Person.age"], "at", pd.DataFrame(spine), at=at)
    client.query_offline_columns(
        ["Person.uid"], ["Person.age"], spine, timestamp_column="at", at=at
    )

    sent = [call.json["at"] for call in stub.calls if call.path == "query_offline"]
    assert sent == [offsets, offsets]


def test_an_offline_question_that_failed_is_an_error(stub: Stub, client: Client) -> None:
    stub.answer("query_offline/status", {"status": "failed", "error": "boom"})

    with pytest.raises(CommitFailed, match="failed: boom"):
        client.offline_answers("q1")


def test_rows_may_be_inspected_and_paths_read(stub: Stub, client: Client) -> None:
    stub.answer("dataset/Users/inspect", {"rows": [{"uid": 1, "age": 2}]})
    stub.answer("jobs", {"jobs": []})

    assert client.inspect(Users, n=3)["age"].tolist() == [2]
    assert stub.calls[0].parameters == {"n": "3"}
    assert client.read("jobs") == {"jobs": []}


def test_an_absent_server_is_reported() -> None:
    client = Client("http://127.0.0.1:1")

    with pytest.raises(Unreachable, match="narthex up"):
        client.read("jobs")
    client.close()


def test_an_invalid_answer_is_reported(stub: Stub, client: Client) -> None:
    stub.answer("query", {"Person.age": 5})
    stub.answer("commit", {}, status=202)

    with pytest.raises(AnswerNotUnderstood):
        client.query_columns(["Person.uid"], ["Person.age"], {"Person.uid": [1]})
    with pytest.raises(AnswerNotUnderstood, match="has no `commit_id`"):
        client.commit("x", [Users], [Person])


def test_a_branch_is_checked_out(stub: Stub, client: Client) -> None:
    stub.answer("jobs", {})
    client.checkout("other")
    client.read("jobs")

    assert client.branch() == "other"
    assert stub.calls[0].headers["x-narthex-branch"] == "other"


def test_frames_and_rows_go_there_and_back() -> None:
    types = {
        "i": OptionalType(Int()),
        "f": Float(),
        "s": Str(),
        "t": Datetime(),
        "d": Date(),
        "m": DecimalType(2),
    }
    columns = {
        "i": [1, None],
        "f": [1.5, 2.0],
        "s": ["a", "b"],
        "t": ["2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00.000001Z"],
        "d": ["2020-01-01", "2020-01-02"],
        "m": ["1.50", "2.00"],
    }

    frame = frame_of_columns(columns, types)

    assert frame["m"][0] == Decimal("1.50")
    assert frame["d"][1] == date(2020, 1, 2)
    assert columns_of(frame) == columns
    assert rows_of(frame_of_rows(rows_of(frame))) == rows_of(frame)
    assert frame_of_columns({"x": [None, None]})["x"].tolist() == [None, None]


def test_an_unimplemented_call_is_reported_with_its_code(stub: Stub, client: Client) -> None:
    error = NotYetSupported("lineage is not supported by this server yet", hint="see `/datasets`")
    stub.answer("lineage", {"err_msg": str(error), "errors": [error.plain()]}, status=501)

    with pytest.raises(DefinitionErrors) as raised:
        client.lineage()

    (found,) = raised.value.exceptions_flat()
    assert (type(found), found.hint) == (NotYetSupported, "see `/datasets`")


def test_each_verb_travels_with_its_body(stub: Stub, client: Client) -> None:
    stub.answer("secret/chat", {})

    client.update_secret("chat", "xyz")
    client.delete_secret("chat")

    assert [(call.verb, call.json) for call in stub.calls] == [
        ("PATCH", {"value": "xyz"}),
        ("DELETE", {}),
    ]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"Person.uld": "id"}, "which is not an input"),
        ({Person.uid: "nowhere"}, "the frame has no column `nowhere`"),
    ],
)
def test_a_map_of_columns_names_inputs_and_columns_that_are_there(
    stub: Stub, client: Client, names: Any, says: str
) -> None:
    frame = pd.DataFrame({"id": [1], "at": [datetime(2024, 1, 1, tzinfo=UTC)]})

    with pytest.raises(ArgumentsUnfit, match=says):
        client.query_offline([Person.uid], [Person.age], "at", frame, feature_to_column_map=names)

    assert stub.calls == []


def test_the_branch_of_a_client_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Client("http://127.0.0.1:1").branch()
    monkeypatch.setenv("NARTHEX_BRANCH", "dev")

    assert (before, Client("http://127.0.0.1:1").branch()) == ("main", "dev")
    assert Client("http://127.0.0.1:1", branch="other").branch() == "other"
