"""The browser of the console's tests, and the options of the snapshots of its pages."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

FLAGS: Final = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make screens`."""
    parser.addoption("--write-screens", action="store_true", help="store the pages as they are")
    parser.addoption("--pictures", help="also write each page as PNG into this directory")


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
