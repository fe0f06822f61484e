"""Tokens, answers, providers and addresses that must sign nobody in."""

import base64
import datetime as dt
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from fastapi import Response
from fastapi.responses import JSONResponse, RedirectResponse

from narthex_server.security import sign_in_attempts
from narthex_server.security.browser_sessions import COOKIE
from narthex_server.security.sign_in_attempts import GREATEST_OF_ONE
from narthex_server.security.tokens import SINGLE_SIGN_ON
from narthex_server.sso.provider import GREATEST_ANSWER_BYTES
from tests.cases import every
from tests.server.conftest import TOKEN
from tests.server.sso.conftest import Site, sent_back
from tests.server.sso.providers import (
    SECRET,
    Claims,
    SigningProvider,
    private_key,
    query_of,
    running_provider,
    seconds_from_now,
    signed,
)

pytestmark = pytest.mark.postgres


def require_nobody(site: Site, browser: httpx.Client, answer: httpx.Response, why: str) -> None:
    assert answer.status_code in {403, 503}, answer.text
    assert why in answer.text
    assert COOKIE not in browser.cookies
    assert [one for one in site.house.ledger.tokens.all() if one.created_by == SINGLE_SIGN_ON] == []


def test_a_sound_token_signs_in(site: Site, provider: SigningProvider) -> None:
    """The provider of these tests is accepted as long as a test changes nothing."""
    browser = site.browser()

    answer = browser.get(sent_back(browser))

    assert answer.status_code == 200
    assert browser.get("/console/jobs").status_code == 200
    [began] = provider.begun
    assert began["redirect_uri"] == f"{site.url}/console/sso/callback"
    assert (began["code_challenge_method"], began["response_type"]) == ("S256", "code")
    assert min(len(began[one]) for one in ("state", "nonce", "code_challenge")) == 43
    assert "client_secret" not in began


@pytest.fixture
def many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one address fail more often than the cases of a table."""
    monkeypatch.setattr(sign_in_attempts, "GREATEST_OF_ONE", 100)


def past(claims: Claims) -> None:
    claims["exp"] = seconds_from_now(-120)


def future(claims: Claims) -> None:
    claims["nbf"] = seconds_from_now(600)


def without(name: str) -> Callable[[Claims], None]:
    return lambda claims: claims.pop(name) and None


def with_(**more: object) -> Callable[[Claims], None]:
    return lambda claims: claims.update(more)


@pytest.mark.usefixtures("many_attempts")
@every(
    ("change", "why"),
    [
        (with_(aud="another"), "is for another client"),
        (with_(aud=[]), "no claim `aud`"),
        (with_(aud=["narthex", "another"]), "is for several clients"),
        (with_(aud=["narthex", "another"], azp="another"), "was given to another client"),
        (with_(azp="another"), "was given to another client"),
        (with_(iss="https://evil.example"), "of another issuer"),
        (past, "has expired"),
        (future, "not valid yet"),
        (with_(iat=seconds_from_now(6000)), "not valid yet"),
        (with_(nonce="another"), "of another sign-in"),
        (with_(nonce="\ud800"), "of another sign-in"),
        (with_(nonce=["x"]), "of another sign-in"),
        (with_(exp="soon"), "is not valid"),
        (with_(sub=7), "is not valid"),
        (with_(sub="\n", email_verified=False), "does not name the person"),
        (with_(sub="", email_verified="true"), "does not name the person"),
        (with_(groups="guests"), "has rights here"),
        (with_(groups=["Data", "data ", "dat*"]), "has rights here"),
        (with_(groups=[["data"], {"data": 1}, None]), "has rights here"),
        (with_(groups={"data": True}), "no claim `groups`"),
        (with_(session_expiry=1), "session has ended"),
        (with_(session_expiry="never"), "invalid `session_expiry`"),
        (with_(session_expiry=1e300), "invalid `session_expiry`"),
        *[(without(one), f"no claim `{one}`") for one in ("exp", "iat", "iss", "aud", "sub")],
        *[(without(one), f"no claim `{one}`") for one in ("nonce", "groups")],
    ],
)
def test_a_claim_that_is_wrong_is_refused(
    site: Site, provider: SigningProvider, change: Callable[[Claims], None], why: str
) -> None:
    browser = site.browser()
    provider.change = change

    answer = browser.get(sent_back(browser))

    require_nobody(site, browser, answer, why)


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def unsigned(algorithm: str) -> Callable[[SigningProvider, Claims], str]:
    return lambda _, claims: f"{encoded({'alg': algorithm, 'kid': 'one'})}.{encoded(claims)}."


def by_public_key(provider: SigningProvider, claims: Claims) -> str:
    """Sign with the public key as a shared secret, as some libraries once accepted."""
    secret = provider.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    text = f"{encoded({'alg': 'HS256', 'kid': 'one'})}.{encoded(claims)}"
    mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def by_client_secret(_: SigningProvider, claims: Claims) -> str:
    return jwt.encode(claims, "x" * 32, "HS256", headers={"kid": "one"})


def by_another_key(_: SigningProvider, claims: Claims) -> str:
    return jwt.encode(claims, private_key(), "RS256", headers={"kid": "one"})


def by_unknown_key(_: SigningProvider, claims: Claims) -> str:
    return jwt.encode(claims, private_key(), "RS256", headers={"kid": "two"})


def by_key_in_header(_: SigningProvider, claims: Claims) -> str:
    key = private_key()
    jwk = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    headers = {"kid": "one", "jwk": jwk, "jku": "http://127.0.0.1:1/jwks"}
    return jwt.encode(claims, key, "RS256", headers=headers)


def by_hand(provider: SigningProvider, claims: Claims) -> str:
    """Sign as a library would not, which looks at the key."""
    text = f"{encoded({'alg': 'RS256', 'kid': 'one'})}.{encoded(claims)}"
    signature = provider.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def by_another_kind(_: SigningProvider, claims: Claims) -> str:
    return jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})


def with_critical_header(provider: SigningProvider, claims: Claims) -> str:
    headers = {"kid": "one", "crit": ["http://x.example/unknown"], "http://x.example/unknown": 1}
    return jwt.encode(claims, provider.key, "RS256", headers=headers)


def changed(provider: SigningProvider, claims: Claims) -> str:
    head, _, signature = signed(provider, claims).split(".")
    return f"{head}.{encoded(claims | {'groups': ['operators']})}.{signature}"


@pytest.mark.usefixtures("many_attempts")
@every(
    ("sign", "why"),
    [
        (unsigned("none"), "not signed by an accepted algorithm"),
        (unsigned("None"), "not signed by an accepted algorithm"),
        (unsigned("RS256"), "signature of the ID token is wrong"),
        (by_public_key, "not signed by an accepted algorithm"),
        (by_client_secret, "not signed by an accepted algorithm"),
        (by_another_key, "signature of the ID token is wrong"),
        (by_unknown_key, "has no such key"),
        (by_key_in_header, "signature of the ID token is wrong"),
        (by_another_kind, "has no such key"),
        (changed, "signature of the ID token is wrong"),
        (with_critical_header, "is not valid"),
        (lambda *_: "", "is not valid"),
        (lambda *_: "a.b", "is not valid"),
        (lambda *_: "e30.e30.e30", "not signed by an accepted algorithm"),
        (lambda *_: "x" * 70_000, "is too large"),
    ],
)
def test_a_signature_that_is_wrong_is_refused(
    site: Site, provider: SigningProvider, sign: Any, why: str
) -> None:
    browser = site.browser()
    provider.sign = sign

    answer = browser.get(sent_back(browser))

    require_nobody(site, browser, answer, why)


@pytest.mark.slow
@every(
    "more", [{"use": "enc"}, {"alg": "RS512"}, {"kty": "oct", "k": "eA"}, {"n": "AQAB"}, {"n": 1}]
)
def test_a_key_that_does_not_fit_verifies_nothing(
    site: Site, provider: SigningProvider, more: dict[str, object]
) -> None:
    browser = site.browser()
    provider.keys = [provider.public(**more)]

    answer = browser.get(sent_back(browser))

    require_nobody(site, browser, answer, "nobody was signed in")


def test_a_short_key_verifies_nothing(site: Site, provider: SigningProvider) -> None:
    browser = site.browser()
    provider.key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    provider.sign = by_hand

    answer = browser.get(sent_back(browser))

    require_nobody(site, browser, answer, "key is too short")


def test_a_new_key_of_the_provider_is_read(
    site: Site, provider: SigningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.sso.provider.KEYS_KNOWN_S", 0.0)
    first, second = site.browser(), site.browser()
    assert first.get(sent_back(first)).status_code == 200
    provider.key = private_key()
    provider.keys = [provider.public(kid="two")]
    provider.sign = lambda _, claims: jwt.encode(
        claims, provider.key, "RS256", headers={"kid": "two"}
    )

    assert second.get(sent_back(second)).status_code == 200
    assert provider.read == ["discovery", "token", "jwks", "token", "jwks"]


@pytest.mark.slow
def test_unknown_keys_do_not_make_the_server_ask_the_provider_each_time(
    site: Site, provider: SigningProvider
) -> None:
    provider.sign = by_unknown_key
    for _ in range(4):
        browser = site.browser()
        assert browser.get(sent_back(browser)).status_code == 403

    assert [one for one in provider.read if one != "token"] == ["discovery", "jwks"]


@pytest.mark.slow
@every(
    ("query", "why"),
    [
        ({"state": "x" * 43}, "for another sign-in"),
        ({"state": ""}, "for another sign-in"),
        ({"code": ""}, "has no code"),
        ({"code": "x" * 5_000}, "has no code"),
        ({"code": "x"}, "invalid_grant"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"error": "access_denied<script>"}, "the provider refused"),
    ],
)
def test_an_answer_that_is_wrong_is_refused(
    site: Site, provider: SigningProvider, query: dict[str, str], why: str
) -> None:
    browser = site.browser()
    back = query_of(sent_back(browser))
    assert provider.begun

    answer = browser.get("/console/sso/callback", params=back | query)

    require_nobody(site, browser, answer, why)
    assert "<script>" not in answer.text


def test_an_answer_names_its_issuer_if_the_provider_states_it(
    site: Site, provider: SigningProvider
) -> None:
    provider.document = {"authorization_response_iss_parameter_supported": True}
    browser, other = site.browser(), site.browser()

    answer = browser.get(sent_back(browser))
    named = other.get(f"{sent_back(other)}&iss={provider.issuer}")

    require = "does not name its issuer"
    assert (answer.status_code, require in answer.text) == (403, True)
    assert named.status_code == 200


def test_a_sign_in_belongs_to_its_browser(site: Site, provider: SigningProvider) -> None:
    """An attacker cannot sign another person in as themselves, nor finish another's sign-in."""
    attacker, victim = site.browser(), site.browser()
    back = sent_back(attacker)
    assert provider.begun

    without_cookie = victim.get(back)
    sent_back(victim)
    with_own_cookie = victim.get(back)

    require_nobody(site, victim, without_cookie, "has not begun to sign in")
    require_nobody(site, victim, with_own_cookie, "for another sign-in")


def test_a_sealed_cookie_of_another_kind_begins_nothing(
    site: Site, provider: SigningProvider
) -> None:
    browser = site.browser()
    browser.post("/console/sign-in", data={"token": TOKEN})
    session = browser.cookies[COOKIE]
    back = sent_back(browser)
    copy = site.browser({"narthex_sso": session})

    answer = copy.get(back)

    assert provider.begun
    require_nobody(site, copy, answer, "has not begun to sign in")


@pytest.mark.slow
def test_a_sign_in_that_took_too_long_is_over(
    site: Site, provider: SigningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("narthex_server.sso.sign_in.SIGN_IN_LASTS", dt.timedelta(0))
    browser = site.browser()

    answer = browser.get(sent_back(browser))

    assert provider.begun
    require_nobody(site, browser, answer, "it took too long")


def test_the_session_ends_with_the_one_of_the_provider(
    site: Site, provider: SigningProvider
) -> None:
    ends_at = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(minutes=9)
    provider.change = with_(session_expiry=ends_at.timestamp())
    browser = site.browser()

    answer = browser.get(sent_back(browser))
    views = [one for one in site.house.ledger.tokens.all() if one.name.endswith("ada@example.com")]

    assert answer.status_code == 200
    assert len(views) == 2
    assert {abs(one.expires_at - ends_at) < dt.timedelta(seconds=5) for one in views} == {True}  # type: ignore[operator]
    assert 500 < int(answer.headers["set-cookie"].split("Max-Age=")[1].split(";")[0]) <= 540


@pytest.mark.slow
@every(
    "to",
    [
        "https://evil.example/console",
        "//evil.example",
        "/console/../api",
        "/console\\evil",
        "/console?x=1 2",
        "/console/sso",
        "/console/sso/callback?code=1",
        "javascript:alert(1)",
        "/console/jobs?" + "x" * 2_000,
        "/console/x;url=//evil.example",
    ],
)
def test_a_browser_is_led_to_a_page_of_the_console_only(
    site: Site, provider: SigningProvider, to: str
) -> None:
    browser = site.browser()
    begun = browser.get("/console/sso", params={"to": to})
    back = httpx.get(begun.headers["location"], timeout=60.0).headers["location"]

    answer = browser.get(back)

    assert provider.begun
    assert answer.status_code == 200
    assert 'content="0; url=../../console"' in answer.text
    assert "evil" not in answer.text


def redirected() -> Response:
    return RedirectResponse("http://127.0.0.1:1/elsewhere")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (redirected, "answered with status 307"),
        (lambda: Response(b" " * (GREATEST_ANSWER_BYTES + 1)), "more than 1 MiB"),
        (lambda: Response(b"[" * 100_000), "did not answer with a JSON object"),
        (lambda: Response(b"<html>"), "did not answer with a JSON object"),
        (lambda: JSONResponse([1]), "did not answer with a JSON object"),
        (lambda: Response(status_code=500), "answered with status 500"),
    ],
)
def test_a_provider_that_answers_otherwise_is_unavailable(
    site: Site, provider: SigningProvider, answer: Callable[[], Response], why: str
) -> None:
    provider.answer = answer
    browser = site.browser()

    require_nobody(site, browser, browser.get("/console/sso"), why)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"issuer": "https://evil.example"}, "names itself as another issuer"),
        ({"issuer": None}, "names itself as another issuer"),
        ({"authorization_endpoint": "http://evil.example/a"}, "no `authorization_endpoint`"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no `authorization_endpoint`"),
        ({"token_endpoint": "http://10.0.0.1/token"}, "no `token_endpoint` with `https`"),
        ({"token_endpoint": "https://user:pass@example.com"}, "no `token_endpoint`"),
        ({"jwks_uri": "file:///etc/passwd"}, "no `jwks_uri` with `https`"),
        ({"jwks_uri": None}, "no `jwks_uri` with `https`"),
    ],
)
def test_a_discovery_document_that_is_wrong_is_not_used(
    site: Site, provider: SigningProvider, document: dict[str, Any], why: str
) -> None:
    provider.document = document
    browser = site.browser()

    require_nobody(site, browser, browser.get("/console/sso"), why)


@pytest.mark.slow
def test_failed_sign_ins_are_bounded_apart_from_wrong_tokens(
    site: Site, provider: SigningProvider
) -> None:
    provider.change = with_(groups=[])
    for _ in range(GREATEST_OF_ONE):
        browser = site.browser()
        assert browser.get(sent_back(browser)).status_code == 403
    browser = site.browser()

    assert browser.get(sent_back(browser)).status_code == 429
    assert browser.post("/console/sign-in", data={"token": TOKEN}).status_code == 303


@pytest.mark.slow
def test_codes_that_the_provider_refuses_are_bounded(site: Site, provider: SigningProvider) -> None:
    """A stranger makes the server send no more than some codes with its secret."""
    statuses: list[int] = []
    for _ in range(GREATEST_OF_ONE + 1):
        browser = site.browser()
        back = query_of(sent_back(browser))
        answer = browser.get("/console/sso/callback", params=back | {"code": "guessed"})
        statuses.append(answer.status_code)

    assert statuses == [503] * GREATEST_OF_ONE + [429]
    assert provider.read.count("token") == GREATEST_OF_ONE


def test_no_secret_of_a_sign_in_is_logged(
    site: Site,
    provider: SigningProvider,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    sent: list[str] = []

    def sign(provider: SigningProvider, claims: Claims) -> str:
        sent.append(signed(provider, claims))
        return sent[-1]

    provider.sign = sign
    secrets = [SECRET, "the-secret%3Aof%2Fthe%20client"]
    for change in (with_(), with_(nonce="another")):
        provider.change = change
        browser = site.browser()
        back = sent_back(browser)
        secrets += [browser.cookies["narthex_sso"], query_of(back)["code"], query_of(back)["state"]]
        pages = browser.get(back).text
        secrets += [browser.cookies.get(COOKIE, "nothing of it")]
        assert not [one for one in secrets if one in pages]
    own = threading.get_ident()  # the browser's thread
    lines = [one.getMessage() for one in caplog.records if one.thread != own]
    logged = "\n".join([*lines, *capfd.readouterr()])
    stored = site.control_log()

    assert "not_signed_in" in logged
    for secret in (*secrets, *sent, *provider.verifiers):
        assert secret not in logged
        assert secret not in stored


@pytest.mark.slow
def test_another_provider_is_used_once_it_is_configured(site: Site) -> None:
    with running_provider() as first, running_provider() as second:
        for one in (first, second):
            site.configure(one.issuer)
            browser = site.browser()
            assert browser.get(sent_back(browser)).status_code == 200
        assert (len(first.begun), len(second.begun)) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "rules", "why"),
    [
        ("client_secret = 'inline'", None, "`client_secret`: Extra inputs are not permitted"),
        ("client_secret_env = 'X'", None, "give one of `client_secret_name`"),
        ("lifetime = '13h'", None, "write a duration from 1 minute to 12 hours"),
        ("lifetime = 8", None, "write a duration in quotes"),
        ("", "", "`groups`: Field required"),
        ("", "groups = []", "`groups`: List should have at least 1 item"),
        ("", "[[groups]]\ngroup = 'a'\nroles = ['king']", "neither a role nor a right"),
        ("", "[[groups]]\ngroup = 'a'\nroles = ['dags']", "only Airflow acts for others"),
        ("", "[[groups]]\ngroup = 'a'\nroles = ['speak-for']", "only Airflow acts for others"),
        ("", "[[groups]]\ngroup = 'a'\nroles = ['reader']\nbranch = 'x'", "groups[1].branch"),
        (
            "",
            "[[groups]]\ngroup = 'a'\nroles = ['reader']\n[[groups]]\ngroup = 'a'\nroles=['admin']",
            "rule 2 of `groups` has the group of an earlier one",
        ),
        ("name", None, "this is not TOML"),
    ],
)
def test_a_file_with_a_mistake_is_refused(
    site: Site, provider: SigningProvider, more: str, rules: str | None, why: str
) -> None:
    browser = site.browser()
    back = sent_back(browser)
    if rules is None:
        site.configure(provider.issuer, more)
    else:
        site.configure(provider.issuer, more, rules)

    begun, finished = browser.get("/console/sso"), browser.get(back)
    shown = browser.get("/console/sign-in")

    for answer in (begun, finished):
        assert answer.status_code == 503
        assert why in answer.text.replace("&#39;", "'")
        assert "inline" not in answer.text
    assert "Sign in with single sign-on" in shown.text
    assert browser.post("/console/sign-in", data={"token": TOKEN}).status_code == 303


@pytest.mark.slow
@every("issuer", ["http://10.1.2.3", "https://a.example?x", "ftp://a", "x", ""])
def test_an_issuer_without_https_is_a_mistake(site: Site, issuer: str) -> None:
    site.configure(issuer)
    answer = site.browser().get("/console/sso")

    assert answer.status_code == 503
    assert "`issuer`: " in answer.text


def test_a_secret_that_is_missing_is_named(site: Site, provider: SigningProvider) -> None:
    browser = site.browser()
    back = sent_back(browser)
    assert provider.begun
    (site.house.services.settings.home / "client.secret").unlink()

    require_nobody(site, browser, browser.get(back), "the client secret")


def test_without_a_file_single_sign_on_is_closed(site: Site) -> None:
    browser = site.browser()

    assert browser.get("/console/sso").status_code == 404
    assert browser.get("/console/sso/callback?code=1&state=2").status_code == 404
    assert "Sign in with" not in browser.get("/console/sign-in").text


@pytest.mark.slow
def test_the_client_secret_may_be_stored_in_the_ledger(
    site: Site, provider: SigningProvider
) -> None:
    site.house.services.secrets.add("sso/client", "the-secret:of/the client", actor="ops")
    file = site.house.services.settings.sso_file
    text = file.read_text().replace("client_secret_file", "client_secret_name")
    file.write_text(text.replace(site.secret_file, "sso/client"))
    browser = site.browser()

    assert browser.get(sent_back(browser)).status_code == 200
    assert provider.begun
