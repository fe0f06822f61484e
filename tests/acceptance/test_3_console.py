"""A person opens the console: in Airflow after the login there, and alone with the token."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.acceptance.conftest import Market

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

ARTEFACTS = Path(__file__).resolve().parents[2] / "build" / "artefacts"
PATIENCE_MS = 30_000
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail("no browser; install one with `apt-get install --yes chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1360, "height": 850})
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def test_the_console_in_airflow_shows_the_datasets_after_the_login(
    market: Market, page: Page
) -> None:
    settings = market.platform.settings
    page.goto(f"{settings.airflow_url}/")
    page.fill("input[name=username]", settings.airflow_user)
    page.fill("input[name=password]", settings.airflow_password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)

    expect(page.get_by_text("Narthex").first).to_be_visible(timeout=PATIENCE_MS)
    page.goto(f"{settings.airflow_url}/plugin/narthex")

    console = page.frame_locator("iframe")
    row = console.locator("tr", has_text="Orders@1")
    expect(row).to_be_visible(timeout=PATIENCE_MS)
    expect(row).to_contain_text("quantity: int")
    expect(console.locator("table").first).to_contain_text("Spend@1")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / "console.png")
    assert (ARTEFACTS / "console.png").stat().st_size > 10_000


def test_the_run_of_a_commit_in_airflow_has_its_ledger(market: Market, page: Page) -> None:
    settings = market.platform.settings
    page.goto(f"{settings.airflow_url}/")
    page.fill("input[name=username]", settings.airflow_user)
    page.fill("input[name=password]", settings.airflow_password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)

    page.goto(f"{settings.airflow_url}/dags/commit/runs/{market.commit_id}/plugin/narthex-ledger")

    ledger = page.frame_locator("iframe")
    expect(ledger.get_by_text("Ledger: what it creates and shares")).to_be_visible(
        timeout=PATIENCE_MS
    )
    expect(ledger.locator("tr", has_text="dataset/Orders/log").first).to_contain_text("live")


def test_the_console_alone_asks_for_the_token_and_shows_the_jobs(
    market: Market, page: Page
) -> None:
    settings = market.platform.settings
    page.goto(f"{settings.server_url}/console")
    page.fill("#token", settings.token)
    page.get_by_role("button", name="Open").click()

    expect(page.locator("tr", has_text="Orders@1")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="jobs").click()
    expect(page.locator("tr", has_text="Spend.by_user")).to_contain_text(
        "caught_up", timeout=PATIENCE_MS
    )
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / "jobs.png")
    assert settings.token not in page.url
