"""`narthex login`: the token of a person who signed in by the browser, for the command line."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Final

import httpx
import pytest

from narthex.cli.projects.stored_tokens import stored_token, tokens_file
from narthex.errors import ArgumentsUnfit
from narthex_server.security.browser_sessions import COOKIE
from narthex_server.security.tokens import SINGLE_SIGN_ON
from narthex_server.sso.sign_in import challenge_of
from tests.guides.pages import commands, only_block
from tests.guides.terminal import Terminal
from tests.server.driving import accept
from tests.server.shop import shop_definitions
from tests.server.sso.browser import LINK
from tests.server.sso.conftest import Site, sent_back
from tests.server.sso.providers import SigningProvider

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

VERIFIER = "v" * 64
STATE = "s" * 43
BROWSER: Final = str(Path(__file__).with_name("browser.py"))
OF_PAGE: Final = "https://narthex.example.com"
ASKED = f"/console/sso?port=50000&state={STATE}&challenge={challenge_of(VERIFIER)}"


@pytest.fixture(autouse=True)
def configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configurations"))
    for name in ("NARTHEX_URL", "NARTHEX_TOKEN", "NARTHEX_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "configurations" / "narthex" / "tokens.json"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "narthex.cli", *arguments]


@contextmanager
def logging_in(site: Site, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command; yield it with the address that it asks its user to open."""
    process = subprocess.Popen(
        command("login", "--url", site.url, "--no-browser", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    with process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("sign in at "), line
        try:
            yield process, line.removeprefix("sign in at ").strip()
        finally:
            process.kill()


def link_of(page: httpx.Response) -> str:
    found = LINK.search(page.text)
    assert found is not None, page.text
    return unescape(found[1])


def test_a_person_signs_in_and_commands_use_the_token(
    site: Site, provider: SigningProvider, configurations: Path
) -> None:
    browser = site.browser()
    with logging_in(site) as (process, address):
        page = browser.get(sent_back(browser, address))
        link = link_of(page)
        stranger = httpx.get(re.sub("state=[^&]*", "state=x", link), timeout=60.0)
        brought = httpx.get(link, timeout=60.0)
        _, shown = process.communicate(timeout=60)
    listed = subprocess.run(
        command("branch", "list", "--url", f"{site.url}/"), check=False, capture_output=True
    )
    denied = subprocess.run(
        command("token", "list", "--url", site.url), check=False, capture_output=True, text=True
    )

    assert provider.begun
    assert "rights of ada@example.com" in page.text
    assert COOKIE not in browser.cookies
    assert (stranger.status_code, brought.status_code) == (404, 200)
    assert (process.returncode, "signed in as ada@example.com until" in shown) == (0, True)
    assert stat.S_IMODE(configurations.stat().st_mode) == 0o600
    assert listed.returncode == 0, listed.stderr
    assert "lacks the right `administer`" in denied.stderr
    [view] = [one for one in site.house.ledger.tokens.all() if one.created_by == SINGLE_SIGN_ON]
    assert (view.name, view.scopes, view.branches) == (
        "ada@example.com",
        ("author",),
        ("dev/*", "main"),
    )
    assert [
        logged.entry["who"]  # type: ignore[index, call-overload]
        for logged in site.house.ledger.control_log.entries()
        if logged.entry["path"] == "/sso/token"  # type: ignore[index, call-overload]
    ] == ["ada@example.com"]


@pytest.mark.usefixtures("provider")
def test_the_commands_of_the_page_sign_in_by_a_browser_and_use_the_token(
    site: Site, configurations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = only_block("sh sso")
    login, listing = (command.text for command in commands(block.text))
    commit_id = accept(site.house.client, shop_definitions())
    monkeypatch.setenv("BROWSER", shlex.join((sys.executable, BROWSER, "%s", "&")))
    terminal = Terminal(
        monkeypatch=monkeypatch, placeholders={OF_PAGE: lambda _: site.url}, typed={login: ""}
    )

    terminal.types(block)

    assert "signed in as ada@example.com until" in terminal.said[login]
    assert terminal.said[login].endswith(f"the token is in {configurations}\n")
    assert f"{commit_id[:8]}  QUEUED" in terminal.said[listing]


def test_a_token_may_be_printed_and_is_then_not_stored(
    site: Site, provider: SigningProvider, configurations: Path
) -> None:
    browser = site.browser()
    with logging_in(site, "--print") as (process, address):
        httpx.get(link_of(browser.get(sent_back(browser, address))), timeout=60.0)
        printed, _ = process.communicate(timeout=60)
    called = httpx.get(
        f"{site.url}/api/v1/branch/list",
        headers={"authorization": f"Bearer {printed.strip()}"},
        timeout=60.0,
    )

    assert provider.begun
    assert called.status_code == 200
    assert not configurations.exists()


@pytest.mark.parametrize("options", [[], ["--print"]], ids=["stored", "printed"])
def test_a_sign_in_is_reported_as_json(
    site: Site, provider: SigningProvider, configurations: Path, options: list[str]
) -> None:
    browser = site.browser()
    with logging_in(site, "--json", *options) as (process, address):
        httpx.get(link_of(browser.get(sent_back(browser, address))), timeout=60.0)
        printed, _ = process.communicate(timeout=60)
    found = json.loads(printed)

    assert provider.begun
    assert (found["url"], found["name"]) == (site.url, "ada@example.com")
    if options:
        assert found["token"]
        assert not configurations.exists()
    else:
        assert found["file"] == str(configurations)
        assert "token" not in found


def test_a_code_counts_once_and_for_its_command(site: Site, provider: SigningProvider) -> None:
    browser = site.browser()
    code = httpx.URL(link_of(browser.get(sent_back(browser, ASKED)))).params["code"]

    def exchanged(code: str, verifier: str) -> int:
        body = {"code": code, "verifier": verifier}
        return httpx.post(f"{site.url}/api/v1/sso/token", json=body, timeout=60.0).status_code

    assert provider.begun
    assert exchanged(code, "w" * 64) == 403
    assert exchanged(code[:-8] + "AAAAAAA=", VERIFIER) == 403
    assert exchanged(browser.cookies.get("narthex_sso", "x"), VERIFIER) == 403
    assert exchanged(code, VERIFIER) == 200
    assert exchanged(code, VERIFIER) == 403
    assert exchanged(code, "short") == 400


def test_a_code_whose_rule_was_removed_gives_no_token(
    site: Site, provider: SigningProvider
) -> None:
    browser = site.browser()
    code = httpx.URL(link_of(browser.get(sent_back(browser, ASKED)))).params["code"]
    site.configure(provider.issuer, rules="[[groups]]\ngroup = 'x'\nroles = ['reader']")
    body = {"code": code, "verifier": VERIFIER}

    assert httpx.post(f"{site.url}/api/v1/sso/token", json=body, timeout=60.0).status_code == 403


@pytest.mark.parametrize(
    "query",
    [
        f"port=80&state={STATE}&challenge={STATE}",
        f"port=65536&state={STATE}&challenge={STATE}",
        f"port=-1&state={STATE}&challenge={STATE}",
        f"port=x&state={STATE}&challenge={STATE}",
        f"port=50000&state={STATE}",
        f"port=50000&state=x&challenge={STATE}",
        f"port=50000&state={STATE}&challenge={'%22' * 43}",
    ],
)
def test_a_command_with_an_odd_address_gets_no_sign_in(
    site: Site, provider: SigningProvider, query: str
) -> None:
    answer = site.browser().get(f"/console/sso?{query}")

    assert answer.status_code in {400, 403}
    assert provider.begun == []


def test_a_file_that_others_may_read_is_refused(configurations: Path) -> None:
    assert tokens_file() == configurations
    assert stored_token("https://narthex.example.com") == ""
    configurations.parent.mkdir(parents=True)
    configurations.write_text("{}")
    configurations.chmod(0o644)

    with pytest.raises(ArgumentsUnfit, match="others may read it"):
        stored_token("https://narthex.example.com")

    configurations.chmod(0o600)
    configurations.write_text("[]")
    with pytest.raises(ArgumentsUnfit, match="cannot be read as tokens"):
        stored_token("https://narthex.example.com")


def test_a_token_that_has_ended_is_not_used(configurations: Path) -> None:
    ended = '{"https://a": {"token": "nx_1", "name": "ada", "expires_at": "2020-01-01T00:00:00Z"}}'
    configurations.parent.mkdir(parents=True)
    configurations.write_text(ended)
    configurations.chmod(0o600)

    assert stored_token("https://a") == ""
    configurations.write_text(ended.replace("2020", "2999"))
    assert stored_token("https://a/") == "nx_1"
    assert stored_token("https://b") == ""


def test_login_needs_a_server() -> None:
    done = subprocess.run(command("login"), check=False, capture_output=True, text=True)

    assert done.returncode != 0
    assert "no server is named" in done.stderr
