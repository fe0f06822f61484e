"""Each page of the console is within its bounds at 0, 10 and 300 datasets and featuresets.

Times depend on the machine; the bounds are on sizes and counts.
"""

from collections.abc import Iterator
from typing import Final

import attrs
import pytest
from playwright.sync_api import Browser, Page

from tests.conftest import LedgerTemplate
from tests.ledger.db.test_statement_counts import statements
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.console.browsing import (
    HEIGHT,
    PHONE,
    WIDTH,
    console_of,
    overflow,
    serious,
    signed_in,
)
from tests.server.driving import serve
from tests.server.many_entities import project

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

COUNTS: Final = (0, 10, 300)
AUDITED: Final = 120
"""How many datasets have audits: more than a page shows."""

MOST_STATEMENTS: Final = 30
"""How many statements a page may send to the ledger, however many entities it lists."""

MOST_BYTES: Final = 160_000
MOST_ROWS: Final = 420
MOST_PIXELS: Final = 13_000
MOST_ON_A_PHONE: Final = 26_000
OF_A_PICTURE: Final = 700_000
"""The most bytes of a page with a picture of 900 boxes."""

LISTS: Final = (
    "commits",
    "waiting",
    "branches",
    "assets",
    "jobs",
    "metrics",
    "lineage",
    "datasets",
    "features",
    "sources",
    "sinks",
    "search?q=buyer",
    "audits",
    "drift",
    "unread",
    "alerts",
    "erasures",
    "connections",
)
OF_ENTITIES: Final = (
    "commits/{commit}",
    "lineage?of=Totals009",
    "lineage?of=Buyer007.other",
    "lineage?of=Buyer007.other&rest=1",
    "datasets/Totals009",
    "datasets/Events000",
    "datasets/Totals009/statistics",
    "features/Buyer007",
    "features/Buyer007/other",
    "sources?of=webhook:events/events_000",
)


@attrs.frozen(kw_only=True)
class ProjectSize:
    """A served project: how many datasets and featuresets it has, and its commit."""

    count: int
    commit: str
    house: House

    @property
    def paths(self) -> tuple[str, ...]:
        """The pages; without entities, none about one."""
        of_entities = (path.format(commit=self.commit) for path in OF_ENTITIES)
        return (*LISTS, *of_entities) if self.count else LISTS


@pytest.fixture(scope="module", params=COUNTS)
def sized(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ledger_template: LedgerTemplate,
) -> Iterator[ProjectSize]:
    with ledger_template.copied() as url:
        settings = settings_at(tmp_path_factory.mktemp("sized"), dsn=url, kafka=NOBODY)
        with house_at(settings, adapters=in_memory()) as house:
            count = int(request.param)
            commit = serve(house, project(count, count)) if count else ""
            for number in range(min(count, AUDITED)):
                _audit(house, f"Totals{number:03}")
            yield ProjectSize(count=count, commit=commit, house=house)


def _audit(house: House, dataset: str) -> None:
    body = {"dataset": dataset, "from_us": None, "to_us": 0, "success": False}
    answer = house.client.post("/api/v1/audits", json=body | {"result": {"rows": 7, "failed": 1}})
    assert answer.is_success, answer.text


def _height(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollHeight"))


def _rows(page: Page) -> int:
    return int(
        page.evaluate(
            "[...document.querySelectorAll('tr')].filter((row) => row.checkVisibility()).length"
        )
    )


def beyond(page: Page, address: str) -> list[str]:
    """Return the bounds that a page exceeds."""
    answer = page.goto(address)
    assert answer is not None
    assert answer.ok, page.content()[-2000:]
    size, most = len(answer.body()), OF_A_PICTURE if "lineage" in address else MOST_BYTES
    found = [*serious(page), *overflow(page)]
    measured = [("bytes", size, most), ("rows", _rows(page), MOST_ROWS)]
    measured.append(("pixels", _height(page), MOST_PIXELS))
    page.set_viewport_size({"width": PHONE, "height": HEIGHT})
    found += overflow(page)
    measured.append(("pixels on a phone", _height(page), MOST_ON_A_PHONE))
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    found += [
        f"{address}: {one:,} {what}, at most {most:,}" for what, one, most in measured if one > most
    ]
    return found


def test_each_page_is_within_its_bounds(sized: ProjectSize, browser: Browser) -> None:
    found: list[str] = []
    with console_of(sized.house) as url, signed_in(browser, url, "light") as page:
        for path in sized.paths:
            found += beyond(page, f"{url}/console/{path}")

    assert found == []


def test_no_page_sends_many_statements(sized: ProjectSize) -> None:
    counts: dict[str, int] = {}
    with statements() as sent:
        for path in sized.paths:
            sent.clear()
            sized.house.client.get(f"/console/{path}")
            counts[path] = len(sent)

    assert {path: count for path, count in counts.items() if count > MOST_STATEMENTS} == {}
    assert max(counts.values()) > 1


@pytest.mark.parametrize(
    ("name", "listed", "longest"), [("datasets", "datasets", 50), ("features", "featuresets", 20)]
)
def test_the_parts_of_a_list_have_all_entries_once(
    sized: ProjectSize, name: str, listed: str, longest: int
) -> None:
    client = sized.house.client
    if not sized.count:
        assert "Nothing is deployed" in client.get(f"/console/{name}").text
        return
    names = [one["name"] for one in client.get(f"/api/v1/{listed}").json()[listed]]
    count = max(1, -(-len(names) // longest))
    texts = [client.get(f"/console/{name}?part={part + 1}").text for part in range(count)]

    found = [[one for one in names if f"/{name}/{one}?branch" in text] for text in texts]
    assert len(names) == sized.count
    assert [one for part in found for one in part] == names
    assert all(len(part) <= longest for part in found)
    assert ('rel="next"' in texts[0]) is (count > 1)
