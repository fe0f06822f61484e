"""Windows of a browser, in which a person uses the console and Airflow."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from narthex.settings import Settings

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


@contextmanager
def started() -> Iterator[Browser]:
    """Start Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail("no browser; install one with `apt-get install --yes chromium`")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    """Open a window of a person who is signed in nowhere; content that is refused is an error."""
    context = browser.new_context(viewport={"width": 1360, "height": 850})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    refused: list[str] = []
    page.on(
        "console",
        lambda said: refused.append(said.text) if "Content Security Policy" in said.text else None,
    )
    yield page
    context.close()
    assert refused == []


@contextmanager
def signed_in_to_airflow(browser: Browser, settings: Settings) -> Iterator[Page]:
    """Open a window of a person who has signed in to Airflow."""
    with opened(browser) as page:
        page.goto(f"{settings.airflow_url}/")
        page.fill("input[name=username]", settings.airflow_user)
        page.fill("input[name=password]", settings.airflow_password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "/auth/login" not in url)
        yield page
