"""A person approves or rejects a commit on its page: once, as shown, and only with the right."""

import re
import threading
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import pytest
from playwright.sync_api import Browser

from narthex_ledger import AuditView
from tests.server.calling import TestClient
from tests.server.commits.test_rollback import post, without_featuresets
from tests.server.conftest import House
from tests.server.console.browsing import console_of, signed_in
from tests.server.console.test_console import ParsedPage, look
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.security.test_visibility import said
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

OWN: Final = {"origin": "http://testserver"}
DIGEST: Final = re.compile(r'name="shown" value="([0-9a-f]{64})"')


def waiting(house: House) -> str:
    """Return a commit of a protected branch, undecided, after one that readers read."""
    serve(house, shop_definitions())
    post(house, "branch/protect", {"protected": True})
    return committed_again(house, without_featuresets())


def committed_again(house: House, wanted: Any) -> str:
    commit_id = accept(house.client, wanted, **{"x-narthex-actor": "ada"})
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)
    return commit_id


def person(
    house: House, name: str = "grace", *scopes: str, **limits: tuple[str, ...]
) -> TestClient:
    """Return the browser of somebody who has signed in; by default, of an approver."""
    token = f"nx_tests_{name}"
    house.ledger.tokens.put(token, name=name, scopes=scopes or ("approver",), **limits)
    browser = TestClient(house.client.app)
    browser.post("/console/sign-in", data={"token": token}, follow_redirects=False)
    return browser


def digest_on(browser: TestClient, commit_id: str) -> str:
    """Return the digest in the forms of a commit's page."""
    found = DIGEST.findall(browser.get(f"/console/commits/{commit_id}").text)
    assert len(found) == 2
    assert len({*found}) == 1
    return str(found[0])


def send(
    browser: TestClient,
    commit_id: str,
    decision: str,
    digest: str,
    *,
    reason: str = "",
    headers: Mapping[str, str] = OWN,
) -> Any:
    return browser.post(
        f"/console/commits/{commit_id}/{decision}",
        params={"branch": "main"},
        data={"shown": digest, "reason": reason},
        headers=headers,
        follow_redirects=False,
    )


def decision_of(house: House, commit_id: str) -> tuple[str | None, str | None]:
    """Return who has approved a commit, and who has rejected it."""
    approval = shown(house.client, commit_id)["approval"]
    return approval["by"], (approval["rejected"] or {}).get("by")


def has_buttons(seen: ParsedPage) -> bool:
    return any("/approve" in str(found.get("action")) for tag, found in seen.tags if tag == "form")


def test_a_person_approves_what_the_page_shows_and_readers_flip(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    before = look(browser, f"/console/commits/{commit_id}")

    answer = send(browser, commit_id, "approve", digest_on(browser, commit_id))
    step(house.client, commit_id, "backfilled")
    catch_up(house)
    house.services.recovery.look()

    assert answer.status_code == 303
    assert answer.headers["location"] == f"../../../console/commits/{commit_id}?branch=main"
    text = before.text
    assert text.index("Plan hash") < text.index("Approve, and readers") < text.index("Ledger:")
    after = look(browser, f"/console/commits/{commit_id}")
    assert "approval by grace" in after.text
    assert not has_buttons(after)
    assert shown(house.client, commit_id)["promotion"] == "DONE"
    [logged] = [
        one.entry
        for one in house.ledger.control_log.entries()
        if isinstance(one.entry, dict) and one.entry["who"] == "grace" and one.entry["of"]
    ]
    assert isinstance(logged, dict)
    assert (logged["verb"], logged["path"], logged["status"], logged["of"]) == (
        "POST",
        "/console/commits/{commit_id}/approve",
        303,
        {"commit_id": commit_id},
    )


def test_a_person_rejects_a_commit_and_readers_stay(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    served = house.ledger.branches.get(house.services.tenant, "main").serving_seq
    digest = digest_on(browser, commit_id)

    answer = send(browser, commit_id, "reject", digest, reason=" too <many> orders ")
    house.services.recovery.look()

    assert answer.status_code == 303
    seen = look(browser, f"/console/commits/{commit_id}")
    assert re.search(r"approval rejected by grace, [-0-9: ]+ : too <many> orders ", seen.text)
    assert not has_buttons(seen)
    ended = shown(house.client, commit_id)
    assert (ended["state"], ended["promotion"]) == ("FINALIZED", "SUPERSEDED")
    assert ended["approval"]["rejected"]["reason"] == "too <many> orders"
    newest = house.client.get("/api/v1/commits").json()["commits"][0]
    assert (newest["kind"], newest["actor"], newest["promotion"]) == ("rollback", "grace", "DONE")
    assert newest["message"] == f"reject {commit_id}: too <many> orders"
    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert (served, branch.serving_seq, branch.head_seq) == (1, 3, 3)


def test_a_rejected_first_commit_leaves_an_empty_branch(house: House) -> None:
    post(house, "branch/protect", {"protected": True})
    commit_id, browser = committed_again(house, shop_definitions()), person(house)

    answer = send(browser, commit_id, "reject", digest_on(browser, commit_id))

    assert answer.status_code == 303
    branch = house.ledger.branches.get(house.services.tenant, "main")
    assert (branch.head_commit_id, branch.serving_commit_id) == (None, None)
    assert decision_of(house, commit_id) == (None, "grace")


def test_without_the_right_the_page_names_it_and_has_no_buttons(house: House) -> None:
    commit_id, browser = waiting(house), person(house, "bob", "author")

    seen = look(browser, f"/console/commits/{commit_id}")
    answers = [
        send(browser, commit_id, decision, digest_on(person(house), commit_id))
        for decision in ("approve", "reject")
    ]

    assert not has_buttons(seen)
    assert "needs the right approve , which your token lacks" in seen.text
    assert [one.status_code for one in answers] == [403, 403]
    assert "approve" in answers[0].text
    assert decision_of(house, commit_id) == (None, None)


def test_an_approver_of_another_branch_decides_nothing(house: House) -> None:
    commit_id = waiting(house)
    digest = digest_on(person(house), commit_id)

    answer = send(person(house, "eve", branches=("dev",)), commit_id, "approve", digest)

    assert answer.status_code == 403
    assert decision_of(house, commit_id) == (None, None)


def test_a_person_who_may_not_see_all_changes_has_no_buttons(house: House) -> None:
    serve(house, shop_definitions())
    post(house, "branch/protect", {"protected": True})
    commit_id = committed_again(house, said(shop_definitions(), "Users", "pii"))
    browser = person(house, "carl", tags=("open",))

    seen = look(browser, f"/console/commits/{commit_id}")

    assert not has_buttons(seen)
    assert "cannot show you all changes" in seen.text


def test_a_form_for_another_plan_is_refused_and_the_page_has_the_present_one(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    present = digest_on(browser, commit_id)

    for decision in ("approve", "reject"):
        answer = send(browser, commit_id, decision, present[::-1])
        assert answer.status_code == 409
        assert "Nothing was decided: the plan, or a check of it, differs" in answer.text
        assert {*DIGEST.findall(answer.text)} == {present}
        assert "Plan hash" in ParsedPage(answer.text).text
    assert decision_of(house, commit_id) == (None, None)


def test_a_check_that_ends_after_the_page_was_read_refuses_its_form(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    before = digest_on(browser, commit_id)

    house.ledger.audits.record(broken_warning(commit_id))
    late = send(browser, commit_id, "approve", before)
    answer = send(browser, commit_id, "approve", digest_on(browser, commit_id))

    assert late.status_code == 409
    assert "expect_table_row_count" in ParsedPage(late.text).row("Spend", "warning")
    assert (answer.status_code, decision_of(house, commit_id)) == (303, ("grace", None))


def broken_warning(commit_id: str) -> AuditView:
    broken = {"kind": "expect_table_row_count", "severity": "warning", "success": False}
    return AuditView(
        audit_id=UUID(int=9),
        commit_id=UUID(commit_id),
        dataset="Spend",
        branch="main",
        from_us=None,
        to_us=None,
        success=False,
        is_critical=False,
        result={"rows": 3, "expectations": [broken | {"arguments": {}}]},
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": "http://testserver.evil.example"},
        {"origin": "http://testserver", "sec-fetch-site": "cross-site"},
        {"origin": "http://testserver", "sec-fetch-site": "same-site"},
        {"origin": "http://testserver", "sec-fetch-site": "none"},
    ],
)
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_form_of_another_site_decides_nothing(
    house: House, decision: str, headers: dict[str, str]
) -> None:
    commit_id, browser = waiting(house), person(house)
    digest = digest_on(browser, commit_id)

    answer = send(browser, commit_id, decision, digest, headers=headers)

    assert answer.status_code == 403
    assert "another site sent this form" in answer.text
    assert decision_of(house, commit_id) == (None, None)


def test_a_form_of_ours_counts_behind_a_proxy_and_in_a_browser(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    stale = "0" * 64
    proxied = {"origin": "https://proxy.example", "x-forwarded-host": "proxy.example"}

    statuses = [
        send(browser, commit_id, "approve", stale, headers=headers).status_code
        for headers in (proxied, {"sec-fetch-site": "same-origin"})
    ]

    assert statuses == [409, 409]


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_opening_the_address_of_a_form_only_leads_to_the_page(house: House, decision: str) -> None:
    commit_id, browser = waiting(house), person(house)
    path = f"/console/commits/{commit_id}/{decision}?branch=main&all=1"

    answer = browser.get(path, follow_redirects=False)

    assert answer.status_code == 303
    assert answer.headers["location"] == f"../../../console/commits/{commit_id}?branch=main&all=1"
    assert has_buttons(look(browser, path))
    assert decision_of(house, commit_id) == (None, None)


def test_a_session_decides_by_the_forms_alone(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    digest = digest_on(browser, commit_id)

    calls = [
        browser.post(f"/api/v1/commits/{commit_id}/{decision}", json={}, headers=OWN)
        for decision in ("approve", "reject")
    ]
    stranger = send(TestClient(house.client.app), commit_id, "approve", digest)
    copy = TestClient(house.client.app, cookies=dict(browser.cookies))
    browser.post("/console/sign-out", headers=OWN)
    ended = send(copy, commit_id, "approve", digest)

    assert [one.status_code for one in (*calls, stranger, ended)] == [401] * 4
    assert decision_of(house, commit_id) == (None, None)


def test_a_second_click_has_the_same_outcome(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    digest = digest_on(browser, commit_id)

    answers = [send(browser, commit_id, "approve", digest) for _ in range(2)]
    approved_at = shown(house.client, commit_id)["approval"]["at"]
    step(house.client, commit_id, "backfilled")
    catch_up(house)
    house.services.recovery.look()
    late = send(browser, commit_id, "approve", digest)

    assert [one.status_code for one in (*answers, late)] == [303] * 3
    assert shown(house.client, commit_id)["approval"]["at"] == approved_at
    transitions = [one["transition"] for one in shown(house.client, commit_id)["events"]]
    assert transitions.count("approved") == 1


@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("second", ["approve", "reject"])
def test_the_first_decision_counts_and_the_page_names_its_author(
    house: House, first: str, second: str
) -> None:
    commit_id, grace, heidi = waiting(house), person(house), person(house, "heidi")
    digest = digest_on(heidi, commit_id)

    done = send(grace, commit_id, first, digest)
    late = send(heidi, commit_id, second, digest)
    house.services.recovery.look()
    later = send(heidi, commit_id, second, digest)

    word = {"approve": "approved", "reject": "rejected"}[first]
    assert [done.status_code, late.status_code, later.status_code] == [303, 409, 409]
    for answer in (late, later):
        assert f"grace has {word} this commit already." in answer.text
        assert not has_buttons(ParsedPage(answer.text))
    expected = ("grace", None) if first == "approve" else (None, "grace")
    assert decision_of(house, commit_id) == expected


def test_of_two_decisions_at_the_same_moment_one_counts(house: House) -> None:
    commit_id, grace, heidi = waiting(house), person(house), person(house, "heidi")
    digest = digest_on(grace, commit_id)
    barrier = threading.Barrier(2)
    statuses: dict[str, int] = {}

    def click(browser: TestClient, decision: str) -> None:
        barrier.wait()
        statuses[decision] = send(browser, commit_id, decision, digest).status_code

    threads = [
        threading.Thread(target=click, args=(grace, "approve")),
        threading.Thread(target=click, args=(heidi, "reject")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    if statuses["approve"] == 303:
        assert decision_of(house, commit_id) == ("grace", None)
        assert shown(house.client, commit_id)["promotion"] == "PENDING"
    else:
        assert decision_of(house, commit_id) == (None, "heidi")
        assert shown(house.client, commit_id)["promotion"] == "SUPERSEDED"
    assert sorted(statuses.values()) == [303, 409]


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_commit_that_has_ended_meanwhile_is_not_decided(house: House, decision: str) -> None:
    commit_id, browser = waiting(house), person(house)
    digest = digest_on(browser, commit_id)
    committed_again(house, shop_definitions())

    answer = send(browser, commit_id, decision, digest)

    assert answer.status_code == 409
    assert "does not wait for an approval; it is SUPERSEDED" in answer.text
    assert decision_of(house, commit_id) == (None, None)


def test_nothing_is_rejected_while_another_commit_has_the_branch(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    digest = digest_on(browser, commit_id)
    other = accept(house.client, shop_definitions())
    create_all(house.client, other)

    answer = send(browser, commit_id, "reject", digest)

    assert answer.status_code == 409
    assert "is in flight" in answer.text
    assert has_buttons(ParsedPage(answer.text))
    assert decision_of(house, commit_id) == (None, None)


@pytest.mark.parametrize("reason", ["two\nlines", "nul\0", "x" * 501])
def test_a_reason_is_one_short_line(house: House, reason: str) -> None:
    commit_id, browser = waiting(house), person(house)

    answer = send(browser, commit_id, "reject", digest_on(browser, commit_id), reason=reason)

    assert answer.status_code == 400
    assert "reason" in answer.text
    assert decision_of(house, commit_id) == (None, None)


def test_a_page_inside_airflow_has_no_buttons_and_takes_no_form(house: House) -> None:
    commit_id = waiting(house)
    embedded = {"x-narthex-embedded": "airflow"}
    narrowed = embedded | {"x-narthex-scope": "read:definitions"}
    digest = digest_on(person(house), commit_id)

    seen = look(house.client, f"/console/commits/{commit_id}", **embedded)
    answers = [
        send(house.client, commit_id, "approve", digest, headers=headers)
        for headers in (embedded, narrowed)
    ]

    assert not has_buttons(seen)
    assert "answer the question of the commit's run in Airflow" in seen.text
    assert [one.status_code for one in answers] == [403, 403]
    assert decision_of(house, commit_id) == (None, None)


def test_a_page_that_reloads_has_no_buttons(house: House) -> None:
    commit_id, browser = waiting(house), person(house)

    seen = look(browser, f"/console/commits/{commit_id}?live=1")

    assert not has_buttons(seen)
    assert "Stop that to decide" in seen.text
    assert "?branch=main#decision" in seen.links()


def test_only_waiting_commits_link_to_their_buttons(house: House) -> None:
    commit_id, browser = waiting(house), person(house)
    post(house, "init", {}, **{"x-narthex-branch": "dev"})
    accept(house.client, shop_definitions(), **{"x-narthex-branch": "dev"})

    seen = look(browser, "/console/waiting")

    assert [link for link in seen.links() if "#decision" in link] == [
        f"../console/commits/{commit_id}?branch=main#decision"
    ]
    assert len(seen.rows) == 3


def test_enter_in_the_reason_rejects_and_the_keyboard_reaches_both_buttons(
    house: House, browser: Browser
) -> None:
    commit_id = waiting(house)
    with console_of(house) as url, signed_in(browser, url, "light") as window:
        window.goto(f"{url}/console/commits/{commit_id}?branch=main#decision")
        approve = window.get_by_role("button", name="Approve")
        approve.focus()
        focused: list[str] = []
        for _ in range(3):
            focused.append(str(window.evaluate("document.activeElement.textContent")))
            window.keyboard.press("Tab")
        window.get_by_label("Reason, for its author").fill("not now")
        window.keyboard.press("Enter")
        window.wait_for_url(f"{url}/console/commits/{commit_id}?branch=main")
        text = window.inner_text("main")

    assert focused == ["Approve", "", "Reject"]
    assert "rejected by platform" in text
    assert "not now" in text
    assert decision_of(house, commit_id) == (None, "platform")


def test_a_click_on_approve_in_a_browser_approves(house: House, browser: Browser) -> None:
    commit_id = waiting(house)
    with console_of(house) as url, signed_in(browser, url, "light", has_scripts=False) as window:
        window.goto(f"{url}/console/commits/{commit_id}")
        window.get_by_role("button", name="Approve").click()
        window.wait_for_url(f"{url}/console/commits/{commit_id}?branch=main")
        text = window.inner_text("main")

    assert "by platform" in text
    assert decision_of(house, commit_id) == ("platform", None)
