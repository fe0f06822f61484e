"""The browser of the console's tests, and two consoles with data."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import LedgerTemplate
from tests.server.console.ordinary_console import OrdinaryConsole, ordinary_console
from tests.server.console.troubled_console import troubled_console

FLAGS: Final = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed; run `apt-get install chromium`")
    flags = [*FLAGS, "--font-render-hinting=none", "--disable-lcd-text"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def ordinary(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[OrdinaryConsole]:
    """Serve the console of the shop."""
    with ordinary_console(tmp_path_factory.mktemp("ordinary"), module_ledger_dsn) as console:
        yield console


@pytest.fixture(scope="module")
def troubled(
    tmp_path_factory: pytest.TempPathFactory, ledger_template: LedgerTemplate
) -> Iterator[str]:
    """Serve the console in which a dataset fell behind; yield its address."""
    with (
        ledger_template.copied() as dsn,
        troubled_console(tmp_path_factory.mktemp("troubled"), dsn) as url,
    ):
        yield url
