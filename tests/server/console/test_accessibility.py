"""Each page of the console in a browser: axe finds nothing serious, in both themes, on a phone."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import TOKEN, House
from tests.server.driving import accept, serve
from tests.server.listening import listening
from tests.server.operations.test_metric_series import Minutes, minutes
from tests.server.shop import shop_definitions

__all__ = ["minutes"]

pytestmark = pytest.mark.postgres

Theme = Literal["light", "dark"]
FLAGS: Final = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
SERIOUS: Final = {"serious", "critical"}
PHONE: Final = 390
"""The width of a phone, in CSS pixels."""

OF_THE_SHOP: Final = (
    "commits",
    "commits/{commit}",
    "waiting",
    "branches",
    "assets",
    "jobs",
    "jobs/{job}",
    "metrics",
    "metrics?span=month",
    "metrics/queries",
    "lineage",
    "datasets",
    "datasets/Orders",
    "datasets/Spend",
    "datasets/Orders/statistics",
    "features",
    "features/Buyer",
    "search?q=spend",
    "audits",
    "drift",
    "alerts",
    "erasures",
    "connections",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed; run `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def signed_in(browser: Browser, url: str, theme: Theme, *, width: int = 1360) -> Iterator[Page]:
    """Open a window of somebody who has signed in to the console."""
    context = browser.new_context(
        viewport={"width": width, "height": 850}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{url}/console")
    page.fill("input[name=token]", TOKEN)
    page.get_by_role("button", name="Open").click()
    page.wait_for_load_state()
    yield page
    context.close()


def serious(page: Page) -> list[str]:
    """Run axe on a page; return its serious findings, each with the elements."""
    found: dict[str, Any] = Axe().run(page).response
    return [
        f"{page.url}: {one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def overflow(page: Page) -> list[str]:
    """Return by how much a page is wider than its window, if it is."""
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return [f"{page.url}: {wider} px wider than the window"] if wider > 0 else []


def sampled_job(house: House, minutes: Minutes) -> int:
    """Sample some minutes, with a gap; return a job."""
    for minute, rows in ((1, 100), (2, 130), (3, 140), (5, 150)):
        minutes.sample(minute, rows)
    job: int = house.client.get("/api/v1/jobs").json()["jobs"][0]["asset_id"]
    return job


def test_faults_are_found(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": PHONE, "height": 850})
    page.set_content("<html lang='en'><title>x</title><main><img src='x'><input></main>")

    assert [one.split(": ")[1] for one in serious(page)] == ["image-alt", "label"]
    assert overflow(page) == []
    page.set_content("<html lang='en'><title>x</title><main style='width: 500px'>x</main>")
    assert len(overflow(page)) == 1
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    house: House, minutes: Minutes, browser: Browser, theme: Theme
) -> None:
    serve(house, shop_definitions())
    job = sampled_job(house, minutes)
    commit = accept(house.client, shop_definitions(), message="one that has not ended")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    findings: list[str] = []
    with listening(make_app(house.services), port, has_tasks=False):
        anonymous = browser.new_page(color_scheme=theme)
        anonymous.goto(f"{url}/console/sign-in")
        findings += serious(anonymous)
        anonymous.close()
        with signed_in(browser, url, theme) as page:
            for path in OF_THE_SHOP:
                answer = page.goto(f"{url}/console/{path.format(commit=commit, job=job)}")
                assert answer is not None
                assert answer.status == 200, page.content()
                findings += serious(page)

    assert findings == []


def test_no_page_is_wider_than_a_phone(house: House, minutes: Minutes, browser: Browser) -> None:
    serve(house, shop_definitions())
    job = sampled_job(house, minutes)
    commit = accept(house.client, shop_definitions(), message="one that has not ended")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    wide: list[str] = []
    with (
        listening(make_app(house.services), port, has_tasks=False),
        signed_in(browser, url, "light", width=PHONE) as page,
    ):
        for path in OF_THE_SHOP:
            page.goto(f"{url}/console/{path.format(commit=commit, job=job)}")
            wide += overflow(page)

    assert wide == []


def test_an_empty_installation_has_pages_without_findings(house: House, browser: Browser) -> None:
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    findings: list[str] = []
    with (
        listening(make_app(house.services), port, has_tasks=False),
        signed_in(browser, url, "light") as page,
    ):
        for path in OF_THE_SHOP:
            if "{" not in path and "/" not in path:
                page.goto(f"{url}/console/{path}")
                findings += [*serious(page), *overflow(page)]

    assert findings == []
