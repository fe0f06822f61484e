"""Each page of the console shows in a browser what it must, in both themes and on a phone."""

from collections.abc import Iterable, Mapping
from typing import Final

import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, ConsoleMessage, Page, Response

from narthex_server.console import router
from tests.server.console.browsing import (
    HEIGHT,
    OF_COLOURS,
    PHONE,
    overflow,
    serious,
    signed_in,
)
from tests.server.console.ordinary_console import OrdinaryConsole

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

LAPTOP: Final = 1280
"""The width of the window in which pages are opened, in CSS pixels."""

UNKNOWN: Final = "This page cannot be shown"
PAGES: Final[dict[str, tuple[str, ...]]] = {
    "commits": (
        "Commits of main",
        "{waiting:.8} 2 deploy count orders by hour COMMITTED PENDING ada",
        "1 deploy a shop FINALIZED DONE platform",
    ),
    "commits/{waiting}": (
        "Commit {waiting:.8}: count orders by hour",
        "Spend (stream_job): not backfilled",
        "a person, who approves it",
        "state COMMITTED readers PENDING commit {waiting} branch main, number 2 kind deploy",
        "~ dataset `Spend` v1 → v2",
        "created 7 shared 17 backfilled pipeline Spend.by_user",
        "dataset `Spend` changed version `1` `2` Buyer.orders_1h, Buyer.spent, Buyer.is_busy",
        "index of Spend index created",
        "Approve",
        "Reject",
    ),
    "commits/{ongoing}?branch=dev": (
        "Commit {ongoing:.8}: without features",
        "state QUEUED",
    ),
    "waiting": (
        "Waiting commits",
        "{waiting:.8} main deploy count orders by hour COMMITTED",
        "Approve or reject",
        "{ongoing:.8} dev deploy without features QUEUED",
    ),
    "branches": (
        "Branches",
        "branch state head serving protected can be restored until",
        "main active {waiting:.8} number 2",
        "number 1 yes",
    ),
    "assets": (
        "Assets and their branches",
        "id asset kind state used by live since physical name fingerprint",
        "dataset/Spend/index index live",
        "main (head) {waiting:.8}",
        "dev (serving)",
        "nx_tests000_cp_",
    ),
    "jobs": (
        "Jobs of main",
        "Users history_feed failed the column `country` is not in the row running 1,234 none",
        "Orders ← webhook:shop/orders stream_job caught_up running stage 0 1,234 none",
        "Spend.by_user stream_job running running real_time 56,789 1,234 3 none",
        "Spend.by_user stream_job pending stopped real_time due none",
    ),
    "jobs/{job}?span=hour": (
        "Job Users ← webhook:shop/users",
        "kind stream_job phase failed desired running reads webhook:shop/users source",
        "error the column `country` is not in the row",
        "Age of the oldest unread record",
    ),
    "metrics?span=month": ("Metrics of main", "last hour day 7 days 30 days", "Rows per minute"),
    "metrics/queries": ("Queries", "Queries and lookups per second"),
    "lineage": (
        "Lineage of main",
        "✕ failing 3 ⚠ blocked 0 ‖ paused 0 ◷ behind 1 ✓ healthy 2",
        "source ✕ failing webhook:shop/users",
        "featureset ✕ failing Buyer",
        "failing Users dataset Users (history_feed): the column `country` is not in the row",
        "behind Spend dataset Spend (history_feed) is running, 56,789 rows behind",
    ),
    "lineage?of=Buyer.rank&users=0": (
        "Lineage of Buyer.rank",
        "◷ behind 3 ✓ healthy 3",
        "feature ◷ behind Buyer.rank",
        "behind Buyer.rank feature Spend (history_feed) is running, 56,789 rows behind",
    ),
    "lineage?of=Buyer.rank&rest=1&users=1": (
        "Lineage of Buyer.rank",
        "As a list (9)",
        "failing Buyer featureset Users (history_feed): the column `country` is not in the row",
    ),
    "datasets": (
        "Datasets serving on main",
        "Orders@1 user: str, amount: float, at: datetime · statistics 0 no shop@narthex.dev",
        "Users@1 user user: str, country: str, since: datetime · statistics 0 yes",
        "Spend@1 user user: str, orders_1h: int, spent: float, at: datetime · statistics 0 yes",
    ),
    "datasets/Spend": (
        "Dataset Spend",
        "The spending of a user. version 2 owner shop@narthex.dev looked up by user",
        "pipelines by_user inputs Orders dataset used by Buyer.orders_1h feature, Buyer.spent",
        "user str key orders_1h int spent float at datetime event time",
        "Spend index_feed running 56,789 1,234 3",
        "class Spend:",
    ),
    "datasets/Orders/statistics": (
        "Columns of Orders",
        "column rows nulls distinct least median greatest mean deviation most frequent",
        "No row arrived in these hours, or they are not summarized yet.",
    ),
    "datasets/Nothing": (UNKNOWN, "Dataset `Nothing` not found"),
    "features": (
        "Features serving on main",
        "Buyer of shop@narthex.dev The features of a buyer.",
        "user str given orders_1h int Spend.orders_1h spent float Spend.spent",
        "country Optional[str] Users.country is_busy bool expression rank float ranked()",
    ),
    "features/Buyer": (
        "Featureset Buyer",
        "spent float Spend.spent country Optional[str] Users.country is_busy bool expression",
        "+ featureset `Buyer` a shop platform",
        "class Buyer:",
    ),
    "features/Buyer/rank": (
        "Feature Buyer.rank",
        "type float inputs Buyer.spent feature used by nothing",
        "dataset newest event complete up to rows in the log quarantined Orders Spend",
        "def ranked(cls, ts, spent):",
    ),
    "sources": (
        "Sources of main",
        "webhook:shop/orders Webhook Orders webhook:shop/users Webhook Users",
    ),
    "sources?of=webhook:shop/orders": (
        "Source webhook:shop/orders",
        "connector Webhook webhook shop endpoint orders Read by Orders disorder 1d cdc append",
        "Orders ← webhook:shop/orders stream_job caught_up 0 1,234",
    ),
    "sinks": ("Sinks of main", "No dataset of this branch is written to a sink."),
    "search?q=buyer": (
        "Search on main",
        "Buyer featureset shop@narthex.dev The features of a buyer. Buyer.country feature",
        "Users dataset shop@narthex.dev A buyer.",
    ),
    "audits": ("Quality audits of main", "main Orders warning", "1,200 1"),
    "drift": (
        "Drift of main",
        "main Buyer.spent failed psi 0.311 the week before",
        "2026-05-01 12:00:00 2026-05-01 13:00:00 1,200",
    ),
    "unread": (
        "Not read for 30 days on main",
        "7 days 30 days 90 days 365 days",
        "Spend dataset too recent not counted yet shop@narthex.dev",
        "main too recent not counted yet 8 0",
    ),
    "alerts": ("Alerts of main", "No alert fires."),
    "erasures": ("Erasures", "00000000 requested Users main 1 ada"),
    "erasures/{erasure}": (
        "Erasure from Users",
        "state requested erasure {erasure} dataset Users branch main keys 1 by ada",
    ),
    "connections": (
        "Connections",
        "shop Postgres host=db.shop.example db_name=shop",
        "username from secret shop_user password from secret shop_password *",
    ),
    "sign-in": ("Sign in", "narthex token create NAME --scope reader"),
}
"""The title of each page of the ordinary console, and texts that it shows."""

IN_TROUBLE: Final[dict[str, tuple[str, ...]]] = {
    "metrics?span=day": (
        "Metrics of main",
        "Age of the newest row latest 5.91 s, at most 2 h",
        "Rows per minute latest 1,078 rows/min, at most 1,600 rows/min",
        "Quarantined rows 468 rows in all",
    ),
    "datasets/Orders?span=day": (
        "Dataset Orders",
        "Age of the watermark latest 8.91 s, at most 2 h",
        "Records that jobs have not read latest 0 records, at most 18,000 records",
        "Late rows 20 rows in all",
    ),
    "alerts": (
        "Alerts of main",
        "critical freshness main Orders The newest row of Orders is 2 h old; 15 min are allowed.",
        "Look whether the producer of its topic runs. Open 2026-05-01 12:00:",
        "warning silenced quarantine_rate main Orders 4.2 % of the rows of Orders",
        "quarantine_rate main Orders The producer is being corrected. ada 2026-05-01 16:00:00",
    ),
    "lineage": (
        "Lineage of main",
        "✕ failing 0 ⚠ blocked 1 ‖ paused 0 ◷ behind 0 ✓ healthy 5",
        "dataset ⚠ blocked Orders",
        "blocked Orders dataset 4.2 % of the rows of Orders are quarantined; 1 % is allowed.",
    ),
}
"""The same of the console in which a dataset fell behind."""

NOT_OPENED: Final = {
    "/console": "is the page of commits",
    "/console/console.css": "is loaded by each page",
    "/console/commits/{commit_id}/approve": "leads to the page of the commit",
    "/console/commits/{commit_id}/reject": "leads to the page of the commit",
    "/console/datasets/{name}/rows": "reads the broker",
    "/console/datasets/{name}/quarantine": "reads the broker",
    "/console/datasets/{name}/late": "reads the broker",
    "/console/queries": "reads the broker",
    "/console/queries/{query}": "reads the broker",
    "/console/sso": "leads to the provider",
    "/console/sso/callback": "leads to a page",
}
"""Routes without a page of their own here, and why."""

BACKGROUND: Final = "getComputedStyle(document.body).backgroundColor"
COLOUR: Final = "(one) => getComputedStyle(one).color"


def problems_of(page: Page) -> list[str]:
    """Return a list to which a window adds errors of its scripts, policies and requests."""
    found: list[str] = []

    def log(message: ConsoleMessage) -> None:
        # What cannot be loaded is in the answer, with its address.
        is_answer = "Failed to load resource" in message.text
        if message.type in {"error", "warning"} and not is_answer:
            found.append(f"{page.url}: {message.text}")

    def answer(response: Response) -> None:
        if response.status >= 400 and not response.request.is_navigation_request():
            found.append(f"{response.url}: {response.status}")

    page.on("console", log)
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error.message}"))
    page.on("requestfailed", lambda request: found.append(f"{request.url}: {request.failure}"))
    page.on("response", answer)
    return found


def faults(page: Page, address: str, title: str, texts: Iterable[str]) -> list[str]:
    """Open a page once; return what is wrong with it, in both themes and at two widths."""
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": LAPTOP, "height": HEIGHT})
    answer = page.goto(address)
    assert answer is not None
    shown = " ".join(page.inner_text("body").split())
    found = [f"{address}: shows no {one!r}" for one in texts if one not in shown]
    if found:
        found.append(f"{address}: shows {shown!r}")
    if answer.status != (404 if title == UNKNOWN else 200):
        found.append(f"{address}: has the status {answer.status}")
    if page.title() != f"{title} · Narthex":
        found.append(f"{address}: has the title {page.title()!r}")
    found += [*serious(page), *overflow(page)]
    light = page.evaluate(BACKGROUND)
    page.emulate_media(color_scheme="dark")
    if page.evaluate(BACKGROUND) == light:
        found.append(f"{address}: has no dark theme")
    found += serious(page, OF_COLOURS)
    page.set_viewport_size({"width": PHONE, "height": HEIGHT})
    return [*found, *overflow(page)]


def open_all(browser: Browser, url: str, pages: Mapping[str, tuple[str, ...]]) -> None:
    """Open each page of a console; fail with all that is wrong."""
    found: list[str] = []
    with signed_in(browser, url, "light", width=LAPTOP) as page:
        problems = problems_of(page)
        for address, (title, *texts) in pages.items():
            found += faults(page, address, title, texts)
    if found or problems:
        pytest.fail("\n".join([*found, *problems]), pytrace=False)


def test_each_page_shows_what_it_must(ordinary: OrdinaryConsole, browser: Browser) -> None:
    pages = {
        ordinary.address(path): tuple(ordinary.names(one) for one in shown)
        for path, shown in PAGES.items()
    }

    open_all(browser, ordinary.url, pages)


def test_pages_show_a_dataset_that_fell_behind(troubled: str, browser: Browser) -> None:
    open_all(
        browser,
        troubled,
        {f"{troubled}/console/{path}": shown for path, shown in IN_TROUBLE.items()},
    )


def test_phases_of_jobs_have_colours_of_their_own(
    ordinary: OrdinaryConsole, browser: Browser
) -> None:
    with signed_in(browser, ordinary.url, "light") as page:
        page.goto(ordinary.address("jobs"))
        colours = {
            phase: page.locator("td", has_text=phase).locator(".state").first.evaluate(COLOUR)
            for phase in ("failed", "caught_up", "pending")
        }
        colours["nothing"] = page.locator("main").evaluate(COLOUR)

    assert len(set(colours.values())) == len(colours), colours


def test_every_page_is_opened_or_has_a_reason_not_to_be() -> None:
    routes = [one for one in router.routes if isinstance(one, APIRoute) and "GET" in one.methods]
    paths = {f"/console/{path.partition('?')[0]}" for path in (*PAGES, *IN_TROUBLE)}
    missing = {one.path for one in routes if not any(one.path_regex.match(path) for path in paths)}

    assert missing == set(NOT_OPENED)


def test_faults_of_a_page_are_found(browser: Browser) -> None:
    address = "http://shop.example/page"
    broken = (
        "<html lang='en'><title>x</title>"
        "<style>@media (prefers-color-scheme: dark) { p { color: #ccc } }</style>"
        "<main style='width: 1300px; background: white'><p>pale</p><img src='/x.png'><input></main>"
        "<script>throw new Error('thrown')</script></html>"
    )
    page = browser.new_page()
    page.route(address, lambda route: route.fulfill(body=broken, content_type="text/html"))
    page.route("**/x.png", lambda route: route.fulfill(status=404))
    problems = problems_of(page)
    found = faults(page, address, "Page", ("a row",))
    page.close()

    begins = [
        "shows no 'a row'",
        "shows 'pale'",
        "has the title 'x'",
        "image-alt",
        "label",
        "28 px wider than a window of 1280 px",
        "has no dark theme",
        "color-contrast",
        "918 px wider than a window of 390 px",
    ]
    assert [one.split(": ")[1] for one in found] == begins
    assert problems == [f"{address}: thrown", "http://shop.example/x.png: 404"]
