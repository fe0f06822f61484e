"""The lineage in a browser: its size, its movement by mouse and keys, and the path of a box."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.server.conftest import NOBODY, house_at, in_memory, settings_at
from tests.server.console.browsing import PHONE, console_of, signed_in
from tests.server.driving import serve
from tests.server.shop import shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="module")
def lineage(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[str]:
    settings = settings_at(tmp_path_factory.mktemp("shop"), dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        serve(house, shop_definitions())
        with console_of(house) as url:
            yield url


def width(page: Page) -> int:
    return int(str(page.locator("svg.lineage").get_attribute("width")))


def test_keys_and_buttons_change_the_size_of_the_picture(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light") as page:
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.goto(f"{lineage}/console/lineage?features=1")
        region, full = page.get_by_role("region", name="Lineage graph"), width(page)
        region.focus()
        sizes = []
        for key in ("+", "+", "-", "0", "f"):
            page.keyboard.press(key)
            sizes.append(width(page) / full)
        page.get_by_role("button", name="Zoom in (key +)").click()
        shown = page.locator(".zoom output").text_content()

    assert sizes[:4] == pytest.approx([1.25, 1.5625, 1.25, 1.0], abs=0.01)
    assert 0.1 < sizes[4] < 1
    assert shown == f"{round(sizes[4] * 125)} %"
    assert problems == []


def test_a_key_goes_to_the_search_unless_something_is_typed(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light") as page:
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.goto(f"{lineage}/console/commits")
        page.keyboard.press("/")
        page.keyboard.type("spend/")
        typed = page.locator("#q").input_value()
        page.keyboard.press("Enter")
        page.wait_for_url("**/search?*")

        assert typed == "spend/"
        assert problems == []


def test_the_picture_follows_the_mouse(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light", width=PHONE) as page:
        page.goto(f"{lineage}/console/lineage")
        region = page.locator("#picture")
        region.scroll_into_view_if_needed()
        box = region.bounding_box()
        assert box is not None
        left, top = box["x"] + box["width"] - 20, box["y"] + box["height"] - 6
        page.mouse.move(left, top)
        page.mouse.down()
        page.mouse.move(left - 120, top, steps=4)
        page.mouse.up()

        assert region.evaluate("(region) => region.scrollLeft") == pytest.approx(120, abs=2)


def test_a_chosen_entity_among_all_is_in_view(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light", width=PHONE) as page:
        page.goto(f"{lineage}/console/lineage?of=Buyer.rank&rest=1")
        region = page.locator("#picture").bounding_box()
        chosen = page.locator("svg.lineage a.chosen rect").first.bounding_box()
        assert region is not None
        assert chosen is not None

        assert region["x"] < chosen["x"] + chosen["width"] / 2 < region["x"] + region["width"]
        assert page.locator("#picture").evaluate("(region) => region.scrollLeft") > 0


def test_the_curves_to_and_from_a_box_are_marked(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light") as page:
        page.goto(f"{lineage}/console/lineage")
        page.locator("svg.lineage a", has_text="Spend").hover()
        of_spend = page.locator("path.on").count()
        page.locator("svg.lineage a", has_text="Users").first.focus()
        of_users = page.locator("path.on").count()
        page.locator("h1").hover()
        page.locator("#branch").focus()
        of_nothing = page.locator("path.on").count()

    assert (of_spend, of_users, of_nothing) == (3, 2, 0)


def test_without_scripts_the_picture_scrolls(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light", width=PHONE, has_scripts=False) as page:
        page.goto(f"{lineage}/console/lineage")
        region = page.locator("#picture")
        region.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.getElementById('picture').scrollLeft > 0")

        assert page.locator(".zoom").count() == 0
        assert "✓ healthy" in region.locator("a.dataset").first.text_content()


def test_no_other_script_runs(lineage: str, browser: Browser) -> None:
    with signed_in(browser, lineage, "light") as page:
        page.goto(f"{lineage}/console/lineage")
        with pytest.raises(Error, match="Content Security Policy"):
            page.add_script_tag(content="document.title = 'run'")

        assert page.title() == "Lineage of main · Narthex"


@pytest.mark.parametrize(
    ("query", "bright", "dimmed"),
    [
        ("of=Buyer.rank", {"Orders", "Spend", "Buyer.spent", "Buyer.user", "Buyer.rank"}, set()),
        ("of=Buyer.spent", {"Orders", "Spend", "Buyer.spent", "Buyer.user"}, set()),
        (
            "of=Buyer.spent&users=1",
            {"Orders", "Spend", "Buyer.spent", "Buyer.user", "Buyer.rank"},
            set(),
        ),
        (
            "of=Buyer.spent&rest=1",
            {"Orders", "Spend", "Buyer.spent", "Buyer.user"},
            {"Users", "Buyer"},
        ),
        ("of=Spend", {"Orders", "Spend", "Buyer"}, set()),
        ("of=Spend&users=0", {"Orders", "Spend"}, set()),
        ("of=Nothing", set(), set()),
    ],
)
def test_a_path_is_shown_and_the_rest_is_hidden_or_dimmed(
    lineage: str, browser: Browser, query: str, bright: set[str], dimmed: set[str]
) -> None:
    def names(chosen: str) -> set[str]:
        titles = page.locator(f"svg.lineage a{chosen} title").all_text_contents()
        found = {title.partition(":")[0].partition(" ")[2] for title in titles}
        return found - {"webhook"}

    with signed_in(browser, lineage, "light") as page:
        page.goto(f"{lineage}/console/lineage?{query}")

        assert names(":not(.dimmed)") == bright
        assert names(".dimmed") == dimmed
