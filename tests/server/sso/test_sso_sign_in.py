"""People sign in at a provider that runs in its own process, and get the rights of their groups."""

import datetime as dt
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import sync_playwright

from narthex_server.security.browser_sessions import COOKIE
from narthex_server.security.route_rights import ROLES
from narthex_server.security.tokens import SINGLE_SIGN_ON
from tests.server.conftest import TOKEN
from tests.server.sso.conftest import Site
from tests.server.sso.providers import SigningProvider, running_mock

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ADA = {"sub": "7", "email": "ada@example.com", "email_verified": True, "groups": ["x", "data"]}
EVE = {"sub": "8", "email": "eve@example.com", "email_verified": True, "groups": ["guests"]}
BOB = {"sub": "bob 9", "email": "ada@example.com", "email_verified": False, "groups": "operators"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with running_mock(ADA, EVE, BOB) as issuer:
        yield issuer


def signed_in(browser: httpx.Client, sub: str, path: str = "/console/sso") -> httpx.Response:
    """Go through the pages of the provider as a person does."""
    begun = browser.get(path)
    assert begun.status_code == 303, begun.text
    at = begun.headers["location"]
    assert "form" in httpx.get(at, timeout=60.0).text
    answer = httpx.post(at, data={"sub": sub}, timeout=60.0)
    assert answer.status_code == 302, answer.text
    return browser.get(answer.headers["location"])


def tokens_of(site: Site) -> list[Any]:
    found = site.house.ledger.tokens.all()
    return [view for view in found if view.created_by == SINGLE_SIGN_ON]


def test_a_person_signs_in_with_the_rights_of_a_group(site: Site, issuer: str) -> None:
    site.configure(issuer)
    browser = site.browser()
    form = browser.get("/console/jobs?branch=main")
    link = re.search(r'href="([^"]*sso[^"]*)">Sign in with Example<', form.text)
    assert link is not None

    answer = signed_in(browser, "7", str(form.url.join(link[1].replace("&amp;", "&"))))
    opened = browser.get("/console/jobs")
    [view] = tokens_of(site)

    assert answer.status_code == 200, answer.text
    assert "signed in as ada@example.com" in answer.text
    assert re.search(r'content="0; url=\.\./\.\./console/jobs\?branch=main"', answer.text)
    assert opened.status_code == 200
    assert browser.get("/api/v1/branch/list").status_code == 200
    assert browser.get("/api/v1/secrets").status_code == 403
    assert (view.name, view.scopes) == ("ada@example.com", ("author",))
    assert (view.branches, view.tags) == (("dev/*", "main"), ("~secret", "*"))
    left = view.expires_at - dt.datetime.now(dt.UTC)
    assert dt.timedelta(hours=7.9) < left <= dt.timedelta(hours=8)
    assert set(ROLES["author"]) == set(ROLES[view.scopes[0]])


def test_the_cookies_are_for_this_server_and_no_script(site: Site, issuer: str) -> None:
    site.configure(issuer)
    browser = site.browser()
    begun = browser.get("/console/sso").headers["set-cookie"]

    answer = signed_in(browser, "7")
    session, ended = answer.headers.get_list("set-cookie")

    assert {"HttpOnly", "Max-Age=600", "Path=/", "SameSite=lax"} <= set(begun.split("; "))
    assert session.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(session.split("; "))
    assert "Max-Age=0" in ended
    assert answer.headers["cache-control"] == "no-store"


def test_a_person_appears_in_the_control_log(site: Site, issuer: str) -> None:
    site.configure(issuer)
    signed_in(site.browser(), "7")
    signed_in(site.browser(), "8")

    logged = json.loads(site.control_log())["entries"]
    entries = [one["entry"] for one in logged]
    ours = [one for one in entries if one["path"] == "/console/sso/callback"]

    assert [(one["who"], one["status"]) for one in ours] == [
        ("ada@example.com", 200),
        ("nobody", 403),
    ]


def test_a_person_without_a_rule_is_not_signed_in(site: Site, issuer: str) -> None:
    site.configure(issuer)
    browser = site.browser()

    answer = signed_in(browser, "8")

    assert answer.status_code == 403
    assert "no group of `eve@example.com` has rights here" in answer.text
    assert 'name="token"' in answer.text
    assert COOKIE not in browser.cookies
    assert tokens_of(site) == []


def test_an_email_that_is_not_verified_is_not_a_name(site: Site, issuer: str) -> None:
    site.configure(issuer)

    answer = signed_in(site.browser(), "bob 9")

    assert answer.status_code == 200
    assert [view.name for view in tokens_of(site)] == ["sub:bob 9"]


def test_signing_out_ends_the_session_and_its_token(
    site: Site, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    site.configure(issuer)
    browser = site.browser()
    signed_in(browser, "7")
    copy = site.browser(dict(browser.cookies))
    assert copy.get("/console/jobs").status_code == 200

    left = browser.post("/console/sign-out")
    [view] = tokens_of(site)

    assert left.status_code == 303
    assert copy.get("/console/jobs").status_code == 401
    assert view.revoked_at is not None


def test_another_sign_in_ends_the_session_before_it(
    site: Site, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    site.configure(issuer)
    browser = site.browser()
    signed_in(browser, "7")
    copy = site.browser(dict(browser.cookies))

    signed_in(browser, "7")

    assert copy.get("/console/jobs").status_code == 401
    assert browser.get("/console/jobs").status_code == 200
    assert sorted(view.revoked_at is None for view in tokens_of(site)) == [False, True]


def test_an_operator_ends_a_session_by_its_token(
    site: Site, issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.security.known_tokens.KNOWN_S", 0.0)
    site.configure(issuer)
    browser = site.browser()
    signed_in(browser, "7")
    [view] = tokens_of(site)

    revoked = httpx.delete(
        f"{site.url}/api/v1/tokens/{view.token_id}",
        headers={"authorization": f"Bearer {TOKEN}"},
        timeout=60.0,
    )

    assert revoked.status_code == 200
    assert browser.get("/console/jobs").status_code == 401


def test_the_answer_of_a_provider_counts_once(site: Site, issuer: str) -> None:
    """The code is spent at the provider, and the sign-in is spent here."""
    site.configure(issuer)
    browser = site.browser()
    begun = browser.get("/console/sso")
    copy = site.browser(dict(browser.cookies))
    back = httpx.post(begun.headers["location"], data={"sub": "7"}, timeout=60.0).headers[
        "location"
    ]

    first = browser.get(back)
    again = browser.get(back)
    copied = copy.get(back)
    other = site.browser()
    query = httpx.URL(other.get("/console/sso").headers["location"]).params
    code = httpx.URL(back).params["code"]
    spent = other.get(f"/console/sso/callback?code={code}&state={query['state']}")

    assert first.status_code == 200
    assert (again.status_code, copied.status_code) == (403, 403)
    assert "has not begun to sign in" in again.text
    assert "was finished before" in copied.text
    assert spent.status_code == 503
    assert "invalid_grant" in spent.text
    assert len(tokens_of(site)) == 1


def test_a_sign_in_with_a_token_works_while_the_provider_is_down(site: Site) -> None:
    with running_mock(ADA) as issuer:
        site.configure(issuer)
        late = site.browser()
        begun = late.get("/console/sso")
        back = httpx.post(begun.headers["location"], data={"sub": "7"}, timeout=60.0).headers[
            "location"
        ]
    browser = site.browser()
    # The discovery document is known; the code cannot be exchanged.
    down = late.get(back)
    shown = browser.get("/console/sign-in")
    entered = browser.post("/console/sign-in", data={"token": TOKEN})

    assert down.status_code == 503
    assert "does not answer (ConnectError); try again, sign in with a token" in down.text
    assert 'name="token"' in down.text
    assert "Sign in with Example" in shown.text
    assert entered.status_code == 303
    assert browser.get("/console/jobs").status_code == 200


def test_a_provider_that_was_never_reached_is_an_error_too(site: Site) -> None:
    site.configure("http://127.0.0.1:1")

    answer = site.browser().get("/console/sso")

    assert answer.status_code == 503
    assert "sign in with a token, or ask an operator to check `sso.toml`" in answer.text


def test_a_browser_keeps_the_session_although_another_site_sent_it_back(
    site: Site, provider: SigningProvider
) -> None:
    """The provider is another site than the server for a real browser, with strict cookies."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed; run `apt-get install chromium`")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = chromium.new_page()
        page.goto(f"{site.url}/console/branches")
        page.get_by_role("link", name="Sign in with Example").click()
        page.wait_for_url(f"{site.url}/console/branches*")
        seen = page.inner_text("h1")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{site.url}/console/sign-in")
        page.goto(f"{site.url}/console/branches")
        after = page.content()
        chromium.close()

    assert len(provider.begun) == 1
    assert "ranches" in seen
    assert "Sign in with Example" in after
