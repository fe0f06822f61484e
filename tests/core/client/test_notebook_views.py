"""HTML of what the client returns: other people's text in it is never markup."""

import json
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from typing_extensions import override

from narthex._server_calls.notebook_views import MOST_ROWS, rows_view
from narthex.client import Client, ReadInfo, Response, TrainingSet
from tests.core.client.test_client import Stub, stub

__all__ = ["stub"]

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\u202e\x00"
TAGS = {"table", "thead", "tbody", "tr", "th", "td", "p", "pre"}


class Seen(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text: list[str] = []
        self.feed(page)
        self.close()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {*attrs}

    @override
    def handle_data(self, data: str) -> None:
        self.text.append(data)


def response(body: dict[str, Any]) -> Response:
    return Response(status_code=200, headers={}, body=body)


PLAN = {"report": {"plan_sha256": "7f"}, "summary": [f"+ create {HOSTILE}", "2 assets"]}
COMMIT = {
    "commit_id": "c1",
    "branch": HOSTILE,
    "seq": 3,
    "state": "FINALIZED",
    "message": HOSTILE,
    "error": None,
    "waits_for": [HOSTILE],
    "assets": [{"label": HOSTILE, "state": "live", "last_error": HOSTILE}],
}
READ = ReadInfo(
    commit_id=HOSTILE, serving_seq=1, as_of_us=0, offsets={HOSTILE: {HOSTILE: {HOSTILE: 7}}}
)
SET = TrainingSet(
    name=HOSTILE,
    frame=pd.DataFrame({HOSTILE: [HOSTILE], "b": [1]}),
    features=(HOSTILE,),
    timestamp_column="at",
    commit_id="c1",
    offsets={},
    statistics={},
    data_sha256="",
    created_at="2026-01-01",
)


@pytest.mark.parametrize(
    "shown",
    [response(PLAN), response(COMMIT), response({HOSTILE: HOSTILE}), READ, SET],
    ids=["plan", "commit", "body", "read", "training set"],
)
def test_text_of_others_is_shown_as_text(shown: Response | ReadInfo | TrainingSet) -> None:
    page = shown._repr_html_()

    seen = Seen(page)
    assert seen.tags <= TAGS
    assert seen.attributes <= {("style", "text-align: left")}
    assert any("<script>alert(1)</script>" in text for text in seen.text)
    assert not any(one in page for one in "\u202e\x00")


def test_a_plan_is_its_lines_and_a_commit_its_facts() -> None:
    plan = Seen(response({"report": {}, "summary": ["+ create a", "! removes b"]})._repr_html_())
    commit = Seen(response({**COMMIT, "branch": "main"})._repr_html_())

    assert plan.text == ["+ create a\n! removes b"]
    assert commit.text[:8] == [
        "commit id",
        "c1",
        "branch",
        "main",
        "seq",
        "3",
        "state",
        "FINALIZED",
    ]
    assert commit.text.count("error") == 1  # the heading of the assets
    assert "waits for" in commit.text


def test_a_long_table_is_cut() -> None:
    seen = Seen(rows_view(("n",), [[n] for n in range(MOST_ROWS + 5)]))

    assert seen.text[-1] == "and 5 more"
    assert str(MOST_ROWS) not in seen.text


def test_the_frame_of_an_answer_escapes_what_it_shows(stub: Stub) -> None:
    stub.answer("query", {"F.name": [HOSTILE]}, x_narthex_read=json.dumps({}))
    client = Client(stub.url, "word")

    frame: Any = client.query(["F.id"], ["F.name"], pd.DataFrame({"F.id": [1]}))

    page = frame._repr_html_()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
