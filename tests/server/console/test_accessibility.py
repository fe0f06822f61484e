"""Each page of the console in a browser: axe finds nothing serious, in both themes, on a phone."""

from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.server.commits.test_rollback import post, without_featuresets
from tests.server.conftest import House
from tests.server.console.browsing import PHONE, Theme, console_of, overflow, serious, signed_in
from tests.server.driving import accept, create_all, serve, step
from tests.server.sampled_minutes import Minutes
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

OF_THE_SHOP: Final = (
    "commits",
    "commits/{commit}",
    "commits/{waiting}?branch=held",
    "waiting",
    "branches",
    "assets",
    "jobs",
    "jobs/{job}",
    "metrics",
    "metrics?span=month",
    "metrics/queries",
    "lineage",
    "lineage?of=Buyer.rank",
    "lineage?of=Buyer.rank&rest=1&users=1",
    "datasets",
    "datasets/Orders",
    "datasets/Spend",
    "datasets/Orders/statistics",
    "features",
    "features/Buyer",
    "features/Buyer/rank",
    "sources",
    "sources?of=webhook:shop/orders",
    "sinks",
    "search?q=spend",
    "audits",
    "drift",
    "unread",
    "alerts",
    "erasures",
    "connections",
)


def sampled_job(house: House, minutes: Minutes) -> int:
    """Sample some minutes, with a gap; return a job."""
    for minute, rows in ((1, 100), (2, 130), (3, 140), (5, 150)):
        minutes.sample(minute, rows)
    job: int = house.client.get("/api/v1/jobs").json()["jobs"][0]["asset_id"]
    return job


def waiting_on_another_branch(house: House) -> str:
    """Return a commit of the branch `held` that waits for a person."""
    of_held = {"x-narthex-branch": "held"}
    post(house, "init", {"clone_from": "main"}, **of_held)
    post(house, "branch/protect", {"protected": True}, **of_held)
    commit_id = accept(house.client, without_featuresets(), **of_held)
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)
    return commit_id


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
    waiting = waiting_on_another_branch(house)
    commit = accept(house.client, shop_definitions(), message="one that has not ended")
    findings: list[str] = []
    with console_of(house) as url:
        anonymous = browser.new_page(color_scheme=theme)
        anonymous.goto(f"{url}/console/sign-in")
        findings += serious(anonymous)
        anonymous.close()
        with signed_in(browser, url, theme) as page:
            for path in OF_THE_SHOP:
                answer = page.goto(
                    f"{url}/console/{path.format(commit=commit, job=job, waiting=waiting)}"
                )
                assert answer is not None
                assert answer.status == 200, page.content()
                findings += serious(page)

    assert findings == []


def test_no_page_is_wider_than_a_phone(house: House, minutes: Minutes, browser: Browser) -> None:
    serve(house, shop_definitions())
    job = sampled_job(house, minutes)
    waiting = waiting_on_another_branch(house)
    commit = accept(house.client, shop_definitions(), message="one that has not ended")
    wide: list[str] = []
    with (
        console_of(house) as url,
        signed_in(browser, url, "light", width=PHONE) as page,
    ):
        for path in OF_THE_SHOP:
            page.goto(f"{url}/console/{path.format(commit=commit, job=job, waiting=waiting)}")
            wide += overflow(page)

    assert wide == []


def test_an_empty_installation_has_pages_without_findings(house: House, browser: Browser) -> None:
    findings: list[str] = []
    with (
        console_of(house) as url,
        signed_in(browser, url, "light") as page,
    ):
        for path in OF_THE_SHOP:
            if "{" not in path and "/" not in path:
                page.goto(f"{url}/console/{path}")
                findings += [*serious(page), *overflow(page)]

    assert findings == []
