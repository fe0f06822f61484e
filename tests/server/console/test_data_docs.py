"""The Data Docs below the console: what is served to whom, and how a browser shows it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from narthex.settings import Settings, environment_of
from tests.server.audited_sales import arrive, served_sales
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.console.browsing import HEIGHT, WIDTH, Theme, overflow, serious, signed_in

pytestmark = pytest.mark.postgres

INDEX = "/console/data-docs/index.html"
UNSEEN = "nobody reads this"
RESULT = (
    "validations/main:Orders@1/by event_time from 2026/20260101T000000.000000Z/narthex-rows.html"
)


@pytest.fixture
def site(house: House) -> Path:
    """Data Docs with an index and a result, as files; beside them, what nobody may read."""
    directory = house.services.settings.data_docs_dir
    for name, text in {
        "index.html": "<h1>Data Docs</h1>",
        RESULT: "<h1>a result</h1>",
        ".hidden.html": UNSEEN,
        "notes.json": UNSEEN,
        "../outside.html": UNSEEN,
    }.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    directory.joinpath("linked.html").symlink_to(directory.parent / "outside.html")
    return directory


def narrow(house: House) -> TestClient:
    """Return a client of somebody who sees some branches only."""
    body = {"name": "narrow", "scopes": ["reader"], "branches": ["main"]}
    made = house.client.post("/api/v1/tokens", json=body)
    assert made.status_code < 300, made.text
    client: TestClient = house.client.__class__(house.client.app)
    client.headers["authorization"] = f"Bearer {made.json()['token']}"
    return client


@pytest.mark.usefixtures("site")
def test_a_page_is_served_without_scripts_and_other_hosts(house: House) -> None:
    index = house.client.get(INDEX)
    result = house.client.get(f"/console/data-docs/{RESULT}")

    assert (index.status_code, index.text) == (200, "<h1>Data Docs</h1>")
    assert (result.status_code, result.text) == (200, "<h1>a result</h1>")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert index.headers["x-content-type-options"] == "nosniff"
    policy = index.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "sandbox allow-same-origin"} <= {*policy}
    assert not [one for one in policy if "script" in one or "http" in one or "*" in one]
    front = house.client.get("/console/data-docs", follow_redirects=False)
    assert (front.status_code, front.headers["location"]) == (
        303,
        "../console/data-docs/index.html",
    )


@pytest.mark.parametrize(
    "path",
    [
        ".hidden.html",
        "notes.json",
        "linked.html",
        "..%2Foutside.html",
        "%2e%2e/outside.html",
        "validations/..%2f..%2f../outside.html",
        "..%5Coutside.html",
        "%2Fetc/passwd.html",
        "nothing.html",
        "validations",
        "index.html%00.html",
        "a" * 4000 + ".html",
    ],
)
@pytest.mark.usefixtures("site")
def test_no_other_file_is_served(house: House, path: str) -> None:
    answer = house.client.get(f"/console/data-docs/{path}")

    assert answer.status_code in {400, 404, 414}
    assert UNSEEN not in answer.text


def test_a_page_says_that_nothing_was_validated_yet(house: House) -> None:
    answer = house.client.get(INDEX)

    assert answer.status_code == 200
    assert "No validation result is stored yet" in answer.text


@pytest.mark.usefixtures("site")
def test_only_who_sees_the_whole_installation_sees_the_docs_and_the_link(house: House) -> None:
    client = narrow(house)

    assert client.get(INDEX).status_code == 403
    assert client.get("/console/audits").status_code == 200
    assert "data-docs" not in client.get("/console/audits").text
    assert "data-docs/index.html" in house.client.get("/console/audits").text


BROKEN = "Sales000"


@pytest.fixture(scope="module")
def audited(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[Settings]:
    """Audit a dataset with a negative amount by the command; yield the served installation."""
    home = tmp_path_factory.mktemp("sales")
    with served_sales(home, dsn=module_ledger_dsn, kafka=kafka_bootstrap, number=1) as house:
        arrive(house, BROKEN, [3.0, -4.0, 5.0])
        settings = house.services.settings
        done = subprocess.run(
            [sys.executable, "-m", "narthex.cli", "audit", BROKEN, "--last-hour", "--json"],
            env={**os.environ, **environment_of(settings)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["failed"] == 1
        yield settings


@pytest.mark.kafka
@pytest.mark.slow
def test_a_browser_finds_the_broken_expectation_of_an_audit_in_the_data_docs(
    audited: Settings, browser: Browser
) -> None:
    url = audited.server_url
    with signed_in(browser, url, "light") as page:
        asked: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: errors.append(said.text))
        page.goto(f"{url}/console/datasets/{BROKEN}")
        page.get_by_role("link", name="Suite and validation results in the Data Docs").click()
        assert page.get_by_role("heading", name=f"main:{BROKEN}@1").is_visible()
        assert page.get_by_text("must be greater than or equal to").is_visible()

        page.locator("a[href*='validations']").first.click()
        assert page.get_by_role("heading", name="Validations / main:Sales000@1").is_visible()
        broken = page.locator("tr", has_text="must be greater than or equal to")
        assert "1 unexpected values found. ≈33.33% of 3 total rows" in broken.inner_text()
        kept = page.locator("tr", has_text="must belong to this set")
        assert kept.is_visible()
        page.get_by_label("Failed only").check()
        assert not kept.is_visible()
        assert broken.is_visible()

        page.get_by_role("link", name="Data Docs", exact=True).click()
        row = page.locator("tr", has_text=f"main:{BROKEN}@1").first
        assert "broken" in row.inner_text()
        page.get_by_role("link", name="Console").click()
        assert page.get_by_role("heading", name="Quality audits").is_visible()
        assert {one for one in asked if not one.startswith(url)} == set()
        assert errors == []


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_of_the_data_docs_can_be_read_by_everybody(
    audited: Settings, browser: Browser, theme: Theme
) -> None:
    """The served pages run no scripts, nor those of axe; so their files are looked at."""
    context = browser.new_context(color_scheme=theme, viewport={"width": WIDTH, "height": HEIGHT})
    page = context.new_page()
    found: list[str] = []
    for path in sorted(audited.data_docs_dir.rglob("*.html")):
        page.set_content(path.read_text())
        found += [*serious(page), *overflow(page)]
    context.close()

    assert found == []
