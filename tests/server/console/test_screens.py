"""Each page looks as its snapshot in `screens`; `make screens` stores how the pages look now."""

import datetime as dt
import difflib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import pytest
from playwright.sync_api import Browser

from narthex_ledger import (
    Desired,
    DriftView,
    ErasureRequest,
    JobView,
    Phase,
    ReferenceKind,
    ShardReport,
)
from tests.conftest import LedgerTemplate
from tests.server.commits.test_plan import raised
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.console.browsing import HEIGHT, THEMES, WIDTH, console_of, signed_in
from tests.server.console.guide_pictures import GUIDES, write_pictures
from tests.server.console.page_screens import screen_of, steadied, steady_pages
from tests.server.console.troubled_console import troubled_console
from tests.server.driving import SLOTS, create_all, serve, step
from tests.server.shop import payload, shop_definitions

pytestmark = pytest.mark.postgres

STORED: Final = Path(__file__).with_name("screens")
PAGES: Final = {
    "commits": "commits",
    "commit-that-waits": "commits/{waiting}",
    "waiting": "waiting",
    "branches": "branches",
    "assets": "assets",
    "jobs": "jobs",
    "lineage": "lineage",
    "lineage-of-a-feature": "lineage?of=Buyer.rank&users=0",
    "lineage-with-the-rest-dimmed": "lineage?of=Buyer.rank&rest=1",
    "datasets": "datasets",
    "dataset": "datasets/Spend",
    "statistics": "datasets/Orders/statistics",
    "features": "features",
    "featureset": "features/Buyer",
    "feature": "features/Buyer/rank",
    "sources": "sources",
    "source": "sources?of=webhook:shop/orders",
    "search": "search?q=buyer",
    "audits": "audits",
    "drift": "drift",
    "unread": "unread",
    "alerts": "alerts",
    "erasures": "erasures",
    "connections": "connections",
    "unknown-page": "datasets/Nothing",
}
IN_TROUBLE: Final = {
    "metrics": "metrics?span=day",
    "dataset-that-fell-behind": "datasets/Orders?span=day",
    "alerts-that-fire": "alerts",
    "lineage-with-alerts": "lineage",
}
"""The pages of the console in which a dataset fell behind."""

REPORTS: Final[dict[str, tuple[Phase, dict[str, Any]]]] = {
    "Orders": (Phase.CAUGHT_UP, {"behind": 0}),
    "Spend": (Phase.RUNNING, {"behind": 56789, "late": 3}),
    "Users": (Phase.FAILED, {"error": "the column `country` is not in the row"}),
}


@attrs.frozen(kw_only=True)
class FixedConsole:
    """The console of a server in which the same things have always happened."""

    url: str
    waiting: str

    def addresses(self) -> dict[str, str]:
        """Return the address of each page by its name."""
        return {
            name: f"{self.url}/console/{path.format(waiting=self.waiting)}"
            for name, path in PAGES.items()
        }


@pytest.fixture(scope="module")
def fixed(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str
) -> Iterator[FixedConsole]:
    settings = settings_at(tmp_path_factory.mktemp("fixed"), dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, shop_definitions())
        _post(house, "init", {"clone_from": "main"}, **{"x-narthex-branch": "dev"})
        _post(house, "branch/protect", {"protected": True})
        accepted = house.client.post(
            "/api/v1/commit",
            content=payload(raised("Spend"), message="count orders by hour"),
            headers={"x-narthex-actor": "ada"},
        )
        waiting = str(accepted.json()["commit_id"])
        create_all(house.client, waiting)
        for name in ("ready", "commit"):
            step(house.client, waiting, name)
        _report(house)
        audit = {"dataset": "Orders", "from_us": None, "to_us": 0, "success": False}
        _post(house, "audits", audit | {"result": {"rows": 1200, "failed": 1}})
        house.ledger.drift.record([_drifted()])
        house.ledger.erasures.request(_erasure(house))
        _connect(house)
        with console_of(house) as url:
            yield FixedConsole(url=url, waiting=waiting)


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


def _post(house: House, path: str, body: Any, **headers: str) -> None:
    answer = house.client.post(f"/api/v1/{path}", json=body, headers=headers)
    assert answer.is_success, answer.text


def _report(house: House) -> None:
    """Report the jobs of each dataset in another phase."""
    leases = house.ledger.slots.claim("tests", range(SLOTS))
    epochs = {one.slot: one.epoch for one in leases}
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[shard.slot],
            shard=shard.shard,
            phase=_reported(job)[0],
            lag_ms=1234,
            progress=_reported(job)[1],
        )
        for job in house.ledger.jobs.all()
        for shard in job.shards
        if job.desired is Desired.RUNNING
    ]
    assert house.ledger.jobs.report(reports) == ()
    # Pages show the holders of slots: these leases would end while the test looks at them.
    house.ledger.slots.release("tests", leases)


def _reported(job: JobView) -> tuple[Phase, dict[str, Any]]:
    return REPORTS[job.asset.spec.dataset]


def _drifted() -> DriftView:
    noon = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    return DriftView(
        branch="main",
        feature="Buyer.spent",
        reference_kind=ReferenceKind.WINDOW,
        reference="the week before",
        from_at=noon,
        to_at=noon + dt.timedelta(hours=1),
        rows=1200,
        reference_rows=5000,
        is_compared=True,
        severity="critical",
        metrics={"psi": {"value": 0.3114, "severity": "critical"}},
    )


def _erasure(house: House) -> ErasureRequest:
    return ErasureRequest(
        erasure_id=UUID(int=1),
        tenant=house.services.tenant,
        branch="main",
        dataset="Users",
        fields=("user",),
        actor="ada",
        request_sha256=bytes(32),
        digests=(bytes(32),),
        sealed={"sealed": "unreadable"},
        sources=(),
    )


def _connect(house: House) -> None:
    stored = {
        "kind": "Postgres",
        "arguments": {"host": "db.shop.example", "db_name": "shop"},
        "secrets": {"username": "shop_user", "password": "shop_password"},
    }
    answer = house.client.put("/api/v1/connections/shop", json=stored)
    assert answer.is_success, answer.text


def looks(browser: Browser, url: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return each page of a console as text."""
    with signed_in(browser, url, "light", bypasses_policy=True) as page:
        steady_pages(page, is_even=True)
        return {name: screen_of(page, address) for name, address in addresses.items()}


def in_trouble(url: str) -> dict[str, str]:
    return {name: f"{url}/console/{path}" for name, path in IN_TROUBLE.items()}


def compare(found: Mapping[str, str], *, is_written: bool) -> None:
    differences: list[str] = []
    for name, text in found.items():
        stored = STORED / f"{name}.txt"
        if is_written:
            stored.write_text(text, encoding="utf-8")
        before = stored.read_text(encoding="utf-8") if stored.exists() else ""
        differences += difflib.unified_diff(
            before.splitlines(), text.splitlines(), f"stored {name}", f"now {name}", n=1
        )
    assert "\n".join(differences) == "", "run `make screens` if the pages ought to look like this"


def test_each_page_looks_as_its_snapshot(
    fixed: FixedConsole, browser: Browser, request: pytest.FixtureRequest
) -> None:
    is_written = request.config.getoption("--write-screens", default=False)

    compare(looks(browser, fixed.url, fixed.addresses()), is_written=is_written)


def test_pages_with_plots_and_alerts_look_as_their_snapshots(
    troubled: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    is_written = request.config.getoption("--write-screens", default=False)

    compare(looks(browser, troubled, in_trouble(troubled)), is_written=is_written)


def test_each_snapshot_is_of_a_page() -> None:
    assert {one.stem for one in STORED.iterdir()} == {*PAGES, *IN_TROUBLE}


def test_pictures_of_guides_are_written_with_the_snapshots(
    fixed: FixedConsole, troubled: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--write-screens", default=False):
        pytest.skip("`make screens` writes the pictures of guides whose pages changed")
    for url, addresses in ((fixed.url, fixed.addresses()), (troubled, in_trouble(troubled))):
        with signed_in(browser, url, "light") as page:
            steady_pages(page, is_even=False)
            write_pictures(page, {name: addresses[name] for name in GUIDES if name in addresses})


def test_pictures_are_written_on_demand(
    fixed: FixedConsole, troubled: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    directory = request.config.getoption("--pictures", default=None)
    if directory is None:
        pytest.skip("all pages as PNG: `make screens ARGS=--pictures=build/screens`")
    Path(directory).mkdir(parents=True, exist_ok=True)
    consoles = ((fixed.url, fixed.addresses()), (troubled, in_trouble(troubled)))
    for theme, (url, addresses) in itertools.product(THEMES, consoles):
        with signed_in(browser, url, theme) as page:
            steady_pages(page, is_even=False)
            for name, address in addresses.items():
                page.goto(address)
                page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                page.screenshot(path=Path(directory) / f"{name}-{theme}.png", full_page=True)


def test_instants_and_ids_are_replaced() -> None:
    text = "at 2026-11-27 02:43:47, 2026-11-27T02:43:47.123456+00:00: 0123456789abcdef 01234567"

    assert steadied(text) == (
        "at 2026-05-01 12:00:00, 2026-05-01T12:00:00+00:00: 0000000100000000 01234567"
    )
    long = "873c2c8d-efcc-83e8-add3-fc7a045b08a2"
    assert steadied(f"{long} 873c2c8d") == "00000001-0000-8000-8000-000000000000 00000001"
