"""A person opens the console: in Airflow after the login there, and alone with the token."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.conftest import Market
from tests.acceptance.windows import signed_in_to_airflow

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

ARTEFACTS = Path(__file__).resolve().parents[2] / "build" / "artefacts"


@pytest.fixture(scope="module")
def airflow(browser: Browser, market: Market) -> Iterator[Page]:
    """A window of somebody who has signed in to Airflow, once for all tests."""
    with signed_in_to_airflow(browser, market.platform.settings) as page:
        yield page


def picture(page: Page, name: str) -> None:
    """Keep what is seen, for people."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png")
    assert (ARTEFACTS / f"{name}.png").stat().st_size > 10_000


def test_the_console_in_airflow_leads_from_the_commits_to_one_and_to_the_datasets(
    market: Market, airflow: Page
) -> None:
    expect(airflow.get_by_text("Narthex").first).to_be_visible()
    airflow.goto(f"{market.platform.settings.airflow_url}/plugin/narthex")

    console = airflow.frame_locator("iframe")
    commit = console.locator("tr", has_text=market.commit_id[:8])
    expect(commit).to_contain_text("FINALIZED")
    picture(airflow, "console")
    commit.get_by_role("link", name=market.commit_id[:8]).click()
    expect(console.get_by_role("heading", level=1)).to_contain_text("a market")
    console.get_by_role("link", name="datasets", exact=True).click()
    row = console.locator("tr", has_text="Orders@1")
    expect(row).to_contain_text("quantity: int")
    expect(console.locator("table")).to_contain_text("Spend@1")
    expect(console.get_by_role("button", name="Sign out")).to_have_count(0)


def test_the_run_of_a_commit_in_airflow_has_its_ledger(market: Market, airflow: Page) -> None:
    run = f"{market.platform.settings.airflow_url}/dags/commit/runs/{market.commit_id}"
    airflow.goto(f"{run}/plugin/narthex-ledger")

    ledger = airflow.frame_locator("iframe")
    expect(ledger.get_by_text("Ledger: created and shared assets")).to_be_visible()
    expect(ledger.locator("dl").first).to_contain_text(market.commit_id)
    expect(ledger.locator("tr", has_text="dataset/Orders/log").first).to_contain_text("live")
    expect(ledger.locator("tr", has_text="FINALIZED")).to_have_count(1)
    picture(airflow, "ledger")


def test_a_task_of_a_commit_links_to_it_in_the_console(market: Market, airflow: Page) -> None:
    platform = market.platform
    path = f"dags/commit/dagRuns/{market.commit_id}/taskInstances"
    links = {
        task: platform.airflow("GET", f"{path}/{task}/links")["extra_links"]
        for task in ("compile", "plan", "caught_up", "approve", "promote")
    }
    (link,) = {found["Console"] for found in links.values()}

    airflow.goto(str(link))

    expect(airflow.get_by_role("heading", level=1)).to_contain_text("a market")
    expect(airflow.locator("dl").first).to_contain_text(market.commit_id)
    expect(airflow.locator("link[rel=stylesheet]")).to_have_count(1)
    margin = airflow.locator("body").evaluate("body => getComputedStyle(body).margin")
    assert margin == "0px", "the style sheet is not there"


def test_airflow_requires_a_login_and_grants_the_console_only(
    market: Market, airflow: Page
) -> None:
    url = f"{market.platform.settings.airflow_url}/narthex"

    strangers = [
        httpx.get(f"{url}/{path}", timeout=60.0).status_code for path in ("console", "api/v1/jobs")
    ]
    as_json = airflow.request.get(f"{url}/api/v1/commits/{market.commit_id}")
    tokens = airflow.request.get(f"{url}/api/v1/tokens")
    secret = airflow.request.get(f"{url}/api/v1/secret/anything")
    rows = airflow.request.get(f"{url}/api/v1/dataset/Orders/inspect")

    assert strangers == [401, 401]
    assert as_json.json()["state"] == "FINALIZED"
    assert [answer.status for answer in (tokens, secret, rows)] == [403, 403, 403]


def test_the_console_alone_asks_for_a_token_and_shows_the_jobs(market: Market, page: Page) -> None:
    settings = market.platform.settings
    page.goto(f"{settings.server_url}/console/commits/{market.commit_id}")
    page.fill("#token", settings.token)
    page.get_by_role("button", name="Open").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("a market")
    page.get_by_role("link", name="lineage", exact=True).click()
    picture(page, "lineage")
    expect(page.locator("svg.lineage a", has_text="Spend").first).to_be_visible()
    page.get_by_role("link", name="jobs", exact=True).click()
    page.get_by_role("link", name="Refresh every few seconds").click()
    expect(page.locator("tr", has_text="Spend.by_user")).to_contain_text("caught_up")
    picture(page, "jobs")
    assert settings.token not in page.url
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#token")).to_be_visible()
