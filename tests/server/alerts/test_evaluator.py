"""The loop on a real ledger with real receivers: alerts are sent once, survive a crash, and end."""

import datetime as dt
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex_ledger import Ledger, Signer
from narthex_server.alerts.evaluator import AlertLoop
from tests.cases import every
from tests.server.alerts.local_receivers import HttpReceiver, http_receiver
from tests.server.conftest import House
from tests.server.driving import accept, create_all, serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

HOUR = dt.timedelta(hours=1)
AT_ONCE = 'group_wait = "1s"\ngroup_interval = "1s"\n'


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        yield found


def configure(house: House, text: str) -> None:
    house.services.settings.alerts_file.write_text(AT_ONCE + text)


def webhook(http: HttpReceiver, name: str = "on-call", *lines: str) -> str:
    more = "\n".join(lines)
    return f'[[receivers]]\nname = "{name}"\nkind = "webhook"\nurl = "{http.url}/{name}"\n{more}\n'


@attrs.define
class Later:
    """The loops of one or more servers whose ledger's clock is ahead by a time."""

    house: House
    opened: list[Ledger] = attrs.field(factory=list)

    def loop(self, ahead: dt.timedelta, *, owner: str = "server:one:1") -> AlertLoop:
        settings = self.house.services.settings
        ledger = Ledger(
            settings.ledger_dsn, clock_shift=ahead, signer=Signer.load(settings.signing_key)
        )
        self.opened.append(ledger)
        services = attrs.evolve(
            self.house.services,
            ledger=ledger,
            collector=attrs.evolve(self.house.services.collector, owner=owner),
        )
        return AlertLoop(services)


@pytest.fixture
def later(house: House) -> Iterator[Later]:
    made = Later(house)
    yield made
    for ledger in made.opened:
        ledger.close()


def turn(loop: AlertLoop) -> None:
    """Evaluate and deliver once."""
    assert loop.evaluate()
    loop.deliver()


def fail_commit(house: House, *, error: str = "no broker answers") -> str:
    commit_id = accept(house.client, shop_definitions())
    house.ledger.commits.abort(UUID(commit_id), error=error, actor="tests")
    return commit_id


def alerts(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.client.get("/api/v1/alerts").json()["alerts"]
    return found


def test_a_failed_commit_is_sent_once_and_its_end_too(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http, "on-call", 'rules = ["failed_commit"]'))
    commit_id = fail_commit(house)

    turn(later.loop(dt.timedelta(0)))
    assert http.calls == []  # it waits for more alerts of its group
    for ahead in (dt.timedelta(minutes=1), dt.timedelta(minutes=2)):
        turn(later.loop(ahead))

    (fires,) = [call.body for call in http.calls]
    assert (fires["status"], fires["rule"], fires["severity"]) == (
        "firing",
        "failed_commit",
        "warning",
    )
    (alert,) = fires["alerts"]
    assert alert["summary"].endswith("was rejected: aborted: no broker answers.")
    assert alert["link"] == f"http://127.0.0.1:1/console/commits/{commit_id}?branch=main"
    assert [one["subject"] for one in alerts(house)] == [commit_id]
    serve(house, shop_definitions())
    turn(later.loop(dt.timedelta(minutes=3)))
    turn(later.loop(dt.timedelta(minutes=4)))

    _, ended = [call.body for call in http.calls]
    assert (ended["status"], ended["alerts"][0]["subject"]) == ("resolved", commit_id)
    assert [one for one in alerts(house) if one["rule"] == "failed_commit"] == []


def test_a_commit_that_is_being_undone_has_failed(house: House, later: Later) -> None:
    commit_id = accept(house.client, shop_definitions())
    create_all(house.client, commit_id)
    house.ledger.commits.abort(UUID(commit_id), error="no broker answers", actor="tests")

    turn(later.loop(dt.timedelta(0)))

    (alert,) = alerts(house)
    assert (alert["subject"], alert["severity"]) == (commit_id, "critical")
    assert alert["summary"].endswith("failed: no broker answers.")


def test_stale_datasets_are_one_message_and_are_repeated(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http) + '[rules.freshness]\nmax_age = "1h"\n')
    serve(house, shop_definitions())

    for ahead in (HOUR / 2, 2 * HOUR, 2 * HOUR + dt.timedelta(minutes=1), 7 * HOUR):
        turn(later.loop(ahead))

    bodies = [call.body for call in http.calls if call.body["rule"] == "freshness"]
    assert len(bodies) == 2
    datasets = {one["subject"] for one in bodies[0]["alerts"]}
    assert {"Orders", "Users", "Spend"} <= datasets
    assert "has no rows since" in bodies[0]["alerts"][0]["summary"]
    assert all(one["is_new"] for one in bodies[0]["alerts"])
    assert not any(one["is_new"] for one in bodies[1]["alerts"])


def test_a_receiver_that_is_away_gets_the_message_later_from_another_server(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http) + webhook(http, "other"))
    fail_commit(house)
    first = later.loop(dt.timedelta(0))
    assert first.evaluate()
    http.statuses += [503, 503]
    crashed = later.loop(dt.timedelta(minutes=1))
    turn(crashed)
    (delivery, _) = house.client.get("/api/v1/alerts").json()["deliveries"]
    assert (delivery["is_pending"], delivery["attempts"]) == (True, 1)
    assert delivery["error"] == "it answered with status 503"

    # The first server is gone without a word: its lease must end first.
    assert not later.loop(dt.timedelta(minutes=1), owner="server:two:2").evaluate()
    turn(later.loop(dt.timedelta(minutes=9), owner="server:two:2"))

    assert sorted(call.path for call in http.calls) == ["/on-call"] * 2 + ["/other"] * 2
    ids = {call.path: call.body["id"] for call in http.calls[:2]}
    assert {call.path: call.body["id"] for call in http.calls[2:]} == ids
    states = house.client.get("/api/v1/alerts").json()["deliveries"]
    assert [(one["is_pending"], one["error"]) for one in states] == [(False, "")] * 2
    turn(later.loop(dt.timedelta(minutes=10), owner="server:two:2"))
    assert len(http.calls) == 4


def test_a_silenced_alert_is_listed_and_not_sent(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http))
    asked = {"rule": "failed_*", "branch": "main", "minutes": 60, "reason": "we know"}
    made = house.client.post("/api/v1/alerts/silences", json=asked)
    assert made.status_code == 200, made.text
    fail_commit(house)

    for ahead in (dt.timedelta(0), dt.timedelta(minutes=1)):
        turn(later.loop(ahead))

    assert http.calls == []
    listed = house.client.get("/api/v1/alerts").json()
    assert [one["silenced"] for one in listed["alerts"]] == [True]
    (silence,) = listed["silences"]
    assert (silence["created_by"], silence["reason"]) == ("platform", "we know")
    ended = house.client.delete(f"/api/v1/alerts/silences/{silence['silence_id']}")
    assert ended.status_code == 200, ended.text
    again = house.client.delete(f"/api/v1/alerts/silences/{silence['silence_id']}")
    assert again.status_code == 404
    turn(later.loop(dt.timedelta(minutes=2)))
    assert len(http.calls) == 1


def test_a_finding_of_another_process_fires_and_ends(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http))
    old = {
        "rule": "model_age",
        "subject": "fraud",
        "severity": "critical",
        "summary": "The model is a month old.",
        "remedy": "Train it again.",
        "page": "console/features",
    }
    answer = house.client.post("/api/v1/alerts/findings", json=old)
    assert answer.status_code == 200, answer.text

    for ahead in (dt.timedelta(0), dt.timedelta(minutes=1)):
        turn(later.loop(ahead))
    over = {"rule": "model_age", "subject": "fraud", "fires": False}
    house.client.post("/api/v1/alerts/findings", json=over)
    turn(later.loop(dt.timedelta(minutes=2)))

    bodies = [call.body for call in http.calls]
    assert [(one["rule"], one["status"]) for one in bodies] == [
        ("model_age", "firing"),
        ("model_age", "resolved"),
    ]
    assert bodies[0]["alerts"][0]["link"].endswith("/console/features?branch=main")


@every(
    "change",
    [
        {"rule": "freshness"},
        {"rule": "drift"},
        {"rule": "Drift"},
        {"summary": ""},
        {"page": "https://elsewhere.example.com"},
        {"severity": "loud"},
        {"lasts_s": 0},
    ],
)
def test_a_finding_that_is_not_valid_is_refused(house: House, change: dict[str, object]) -> None:
    sound = {"rule": "model_age", "subject": "a", "summary": "b", "remedy": "c"}

    answer = house.client.post("/api/v1/alerts/findings", json=sound | change)

    assert answer.status_code == 400, answer.text


def test_mistakes_in_the_file_are_an_alert_of_the_last_valid_one(
    house: House, later: Later, http: HttpReceiver
) -> None:
    configure(house, webhook(http))
    loop = later.loop(dt.timedelta(0))
    turn(loop)
    configure(house, webhook(http) + "colour = 3\n")
    turn(loop)

    (found,) = alerts(house)
    assert (found["rule"], found["severity"]) == ("alerts_file", "critical")
    (mistake,) = house.client.get("/api/v1/alerts").json()["mistakes"]
    assert "`receivers[1].webhook" not in mistake
    assert mistake.startswith("`receivers[1].colour`")
    refused = house.client.post("/api/v1/alerts/test", json={})
    assert (refused.status_code, refused.json()["errors"]) == (409, [mistake])
    configure(house, webhook(http))
    turn(loop)
    assert alerts(house) == []


def test_a_test_message_shows_each_outcome(house: House, http: HttpReceiver) -> None:
    secret = "a-secret-of-tests"
    house.client.post("/api/v1/secret/hooks/two", json={"value": f"{http.url}/{secret}"})
    named = '[[receivers]]\nname = "two"\nkind = "slack"\nurl_secret = "hooks/two"\n'
    missing = '[[receivers]]\nname = "three"\nkind = "slack"\nurl_secret = "hooks/three"\n'
    configure(house, webhook(http) + named + missing)

    answer = house.client.post("/api/v1/alerts/test", json={})
    one = house.client.post("/api/v1/alerts/test", json={"receiver": "two"})
    unknown = house.client.post("/api/v1/alerts/test", json={"receiver": "four"})

    outcomes = {one["receiver"]: one for one in answer.json()["deliveries"]}
    assert [outcomes[name]["delivered"] for name in ("on-call", "two", "three")] == [
        True,
        True,
        False,
    ]
    assert "there is no secret `hooks/three`" in outcomes["three"]["error"]
    assert [call.path for call in http.calls] == ["/on-call", f"/{secret}", f"/{secret}"]
    assert len(one.json()["deliveries"]) == 1
    assert unknown.status_code == 404
    assert secret not in answer.text


def test_tokens_of_some_branches_see_and_silence_theirs_alone(house: House, later: Later) -> None:
    house.client.post("/api/v1/init", headers={"x-narthex-branch": "dev"})
    fail_commit(house)
    turn(later.loop(dt.timedelta(0)))
    made = house.client.post(
        "/api/v1/tokens", json={"name": "dev", "scopes": ["author"], "branches": ["dev"]}
    )
    own = {"authorization": f"Bearer {made.json()['token']}", "x-narthex-branch": "dev"}

    listed = house.client.get("/api/v1/alerts", headers=own)
    assert listed.status_code == 200, listed.text
    assert listed.json() == {
        "alerts": [],
        "silences": [],
        "deliveries": [],
        "receivers": [],
        "mistakes": [],
    }
    for branch, status in (("dev", 200), ("*", 403), ("main", 403), ("", 403), ("d[e]v", 403)):
        asked = {"branch": branch, "minutes": 5, "reason": "mine"}
        answer = house.client.post("/api/v1/alerts/silences", json=asked, headers=own)
        assert answer.status_code == status, branch
    assert house.client.post("/api/v1/alerts/test", json={}, headers=own).status_code == 403
    finding = {"rule": "model_age", "subject": "a", "summary": "b", "remedy": "c"}
    refused = house.client.post("/api/v1/alerts/findings", json=finding, headers=own)
    assert refused.status_code == 403


def test_a_loop_that_stops_frees_its_lease(later: Later) -> None:
    first = later.loop(dt.timedelta(0))
    first.start()
    first.stop()

    assert later.loop(dt.timedelta(0), owner="server:two:2").evaluate()


def test_the_console_shows_alerts_and_silences(house: House, later: Later) -> None:
    commit_id = fail_commit(house, error="<script>alert(1)</script>")
    turn(later.loop(dt.timedelta(0)))
    asked = {"subject": "nothing", "minutes": 5, "reason": "planned work"}
    house.client.post("/api/v1/alerts/silences", json=asked)

    page = house.client.get("/console/alerts")

    assert page.status_code == 200
    assert commit_id in page.text
    assert "&lt;script&gt;" in page.text
    assert "<script>alert" not in page.text
    assert f"console/commits/{commit_id}?branch=main" in page.text
    assert "planned work" in page.text
