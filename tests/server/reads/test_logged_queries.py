"""Logged queries are listed, and one is shown beside the answer of now, with its origin."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from narthex_server.console.rendering import PageLocation, page
from narthex_server.reads.logged_queries import SeenFeatures
from tests.server.conftest import House
from tests.server.console.test_console import HOSTILE, look, runs_anything
from tests.server.services.test_query_log import ANSWER, ask, bank_at
from tests.shared_services import fresh_install_id


@pytest.fixture
def bank(tmp_path: Path, ledger_dsn: str, kafka_bootstrap: str) -> Iterator[House]:
    """Serve an installation of its own, whose log of queries is empty."""
    name = fresh_install_id()
    with bank_at(tmp_path, dsn=ledger_dsn, kafka=kafka_bootstrap, install_id=name) as house:
        yield house


def read(house: House, path: str) -> Any:
    answer = house.client.get(f"/api/v1/{path}")
    assert answer.is_success, answer.text
    return answer.json()


@pytest.mark.postgres
@pytest.mark.kafka
def test_logged_queries_are_listed_and_explained(bank: House) -> None:
    house = bank
    assert read(house, "logged_queries") == {"queries": [], "searched": 0}
    empty = look(house.client, "/console/queries")
    for workflow in ("ranking", "audit"):
        assert ask(house, log=True, workflow=workflow).status_code == 200

    found = read(house, "logged_queries")
    one = read(house, f"logged_queries/{found['queries'][1]['query']}")

    assert "client.query(…, log=True) logs one" in empty.text
    assert found["searched"] == 2
    assert [entry["workflow"] for entry in found["queries"]] == ["audit", "ranking"]
    assert len(read(house, "logged_queries?limit=1")["queries"]) == 1
    assert read(house, "logged_queries?featureset=Other")["queries"] == []
    assert len(read(house, "logged_queries?featureset=Risk")["queries"]) == 2
    assert (one["entry"]["rows"], one["entry"]["inputs"]) == (2, ["Risk.card"])
    assert one["given"] == {"Risk.card": ["a", "b"]}
    assert one["answers"]["Risk.more"] == [1, 1]
    assert one["now"]["answers"] == one["answers"]
    assert one["now"]["features"]["Risk.payments"] == {
        "sources": ["Cards.n"],
        "event_time": [None, None],
        "age_s": [None, None],
        "default": [True, True],
    }
    assert one["now"]["commit_id"] == one["entry"]["commit_id"]
    assert one["why_not"] == ""


@pytest.mark.postgres
@pytest.mark.kafka
def test_pages_show_logged_queries(
    bank: House,
) -> None:
    house = bank
    assert ask(house, log=True, workflow="ranking").status_code == 200
    (name,) = (one["query"] for one in read(house, "logged_queries")["queries"])

    listed = look(house.client, "/console/queries?featureset=Risk")
    one = look(house.client, f"/console/queries/{name}")

    assert "ranking Risk.card, Risk.payments, Risk.more 2" in listed.row("ranking")
    assert "from Cards.n" in one.text
    assert "differs" in one.text
    shown = [row.split() for row in one.rows]
    assert ["0", "0", "0", "yes"] in shown
    assert ["1", "1", "1", "yes"] in shown
    look(house.client, "/console/queries/0.999", status=404)
    look(house.client, "/console/queries/nothing", status=400)


@pytest.mark.postgres
@pytest.mark.kafka
def test_a_query_of_a_removed_feature_is_shown_without_an_answer_of_now(bank: House) -> None:
    house = bank
    answers = house.services.answers
    gone = attrs.evolve(ANSWER, outputs={"Risk.removed": [7]})
    assert answers.keep(gone.encoded())
    assert answers.keep(b"garbled")
    assert answers.keep(attrs.evolve(ANSWER, branch="elsewhere").encoded())

    (entry,) = read(house, "logged_queries")["queries"]
    one = read(house, f"logged_queries/{entry['query']}")
    hidden = [house.client.get(f"/api/v1/logged_queries/0.{at}").status_code for at in (1, 2)]

    assert one["answers"] == {"Risk.removed": [7]}
    assert one["now"] is None
    assert "removed" in one["why_not"]
    assert "cannot be shown" in look(house.client, f"/console/queries/{entry['query']}").text
    assert hidden == [404, 404]


def test_only_queries_of_seen_features_are_shown() -> None:
    assert SeenFeatures(None).has(ANSWER)
    assert SeenFeatures(frozenset({"Risk.card", "Risk.more"})).has(ANSWER)
    assert not SeenFeatures(frozenset({"Risk.more"})).has(ANSWER)
    assert not SeenFeatures(frozenset({"Risk.card"})).has(ANSWER)


def test_hostile_values_are_text() -> None:
    here = PageLocation(path="/console/queries/0.1", branch=HOSTILE)
    entry = {
        "query": "0.1",
        "logged_at": "2026-01-01T00:00:00+00:00",
        "as_of": "2026-01-01T00:00:00+00:00",
        "commit_id": HOSTILE,
        "workflow": HOSTILE,
        "inputs": [HOSTILE],
        "outputs": [f"A.{HOSTILE}"],
        "rows": 1,
    }
    one = {
        "entry": entry,
        "given": {HOSTILE: [HOSTILE]},
        "answers": {f"A.{HOSTILE}": [{HOSTILE: [HOSTILE]}]},
        "now": None,
        "why_not": HOSTILE,
    }
    listed = {"queries": [entry], "searched": 1, "featureset": HOSTILE, "branches": [HOSTILE]}

    for template, shown in (("logged_query", one), ("logged_queries", listed)):
        text = bytes(page(template, here, shown).body).decode()
        assert not runs_anything(text)
        assert "alert(1)" in text
