"""The page of what no query has read, from real queries on past days."""

import re

from narthex._base import render_size
from tests.server.calling import TestClient
from tests.server.catalog.test_unread import Days, ask, pytestmark, stored
from tests.server.console.test_console import look
from tests.server.driving import serve
from tests.server.many_entities import project

__all__ = ["pytestmark", "stored"]


def test_the_page_shows_when_each_was_last_read_and_what_it_costs(stored: Days) -> None:
    client = stored.house.client
    uncounted = look(client, "/console/unread")
    assert "too recent not counted yet" in uncounted.row("Users ")
    stored.round(60)
    ask(stored.house)
    stored.round(40)
    (users,) = [one for one in stored.unread()["datasets"] if one["name"] == "Users"]

    seen = look(client, "/console/unread")
    assert "dataset unread never since " in seen.row("Users ")
    sizes = [render_size(users[name]) for name in ("history_bytes", "index_bytes")]
    assert seen.row("Users ").rstrip().endswith(f"{' '.join(sizes)} 3 3")
    assert "unread" in seen.row("Orders dataset", "through Spend")
    assert "through" not in seen.row("Spend dataset")
    assert "featureset unread" in seen.row("Buyer ")
    assert re.search(r" 8 8 ", seen.row("main unread "))
    (json_twin,) = [link for link in seen.links() if "api/v1/unread" in link]
    assert json_twin == "../api/v1/unread?branch=main&days=30"

    ask(stored.house)
    stored.round(1)
    later = look(client, "/console/unread?days=7")
    assert len(later.rows) == 5
    assert later.row("Users ", "unread")
    assert "4 of 6 features: orders_1h, country, is_busy, rank" in later.row("Buyer ")
    assert later.row("Every branch that you see was read.")


def test_a_branch_without_a_commit_has_a_page_and_wrong_spans_are_refused(
    stored: Days,
) -> None:
    client = stored.house.client
    empty = {"x-narthex-branch": "empty"}
    assert client.post("/api/v1/init", json={}, headers=empty).is_success

    seen = look(client, "/console/unread?branch=empty")
    assert "Every dataset and feature that serves on this branch was read." in seen.text
    assert seen.row("empty too recent not counted yet")
    for days in ("0", "-1", "4000", "x", ""):
        assert client.get(f"/console/unread?days={days}").status_code == 400, days
        assert client.get(f"/api/v1/unread?days={days}").status_code == 400, days
    look(client, "/console/unread?branch=nowhere", status=404)


def test_other_pages_lead_there_and_long_lists_have_parts(stored: Days) -> None:
    client: TestClient = stored.house.client
    for name in ("datasets", "features", "branches"):
        links = look(client, f"/console/{name}").links()
        assert "../console/unread?branch=main" in links, name
    serve(stored.house, project(40, 40))
    stored.round(1)

    first = look(client, "/console/unread?days=90")
    (second,) = [link for link in first.links() if "part=2" in link]
    assert second == "../console/unread?branch=main&days=90&part=2"
    assert "Part 1 of 2" in first.text
    rest = look(client, "/console/unread?days=90&part=2")
    names = [row.split()[0] for page in (first, rest) for row in page.rows if "too recent" in row]
    listed = stored.unread(days=90)
    every = [one["name"] for one in (*listed["datasets"], *listed["featuresets"])]
    assert [name for name in names if name != "main"] == every
    assert len(every) > 50
