"""A browser on the console: its windows, and what tests find on a page."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from narthex_server.app import make_app
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import TOKEN, House
from tests.server.listening import listening

Theme = Literal["light", "dark"]
SERIOUS: Final = {"serious", "critical"}
ONLY_VIOLATIONS: Final = {"resultTypes": ["violations"]}
"""Options of axe: elements that are as they should be are not described, which takes longest."""

OF_COLOURS: Final = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""Options of axe: the rules whose findings depend on the theme."""

HEIGHT: Final = 850
WIDTH: Final = 1360
PHONE: Final = 390
"""The width of a phone, in CSS pixels."""


@contextmanager
def signed_in(
    browser: Browser,
    url: str,
    theme: Theme,
    *,
    width: int = WIDTH,
    has_scripts: bool = True,
) -> Iterator[Page]:
    """Open a window of somebody who has signed in to the console."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme=theme,
        reduced_motion="reduce",
        java_script_enabled=has_scripts,
    )
    page = context.new_page()
    page.goto(f"{url}/console")
    page.fill("input[name=token]", TOKEN)
    page.get_by_role("button", name="Open").click()
    page.wait_for_load_state()
    yield page
    context.close()


@contextmanager
def console_of(house: House) -> Iterator[str]:
    """Serve the console of a house on a port of this machine; yield its address."""
    [port] = free_ports(1)
    with listening(make_app(house.services), port, has_tasks=False):
        yield f"http://127.0.0.1:{port}"


def serious(page: Page, options: Mapping[str, object] = MappingProxyType({})) -> list[str]:
    """Run axe on a page; return its serious findings, each with the elements."""
    found: dict[str, Any] = Axe().run(page, options=ONLY_VIOLATIONS | dict(options)).response
    return [
        f"{page.url}: {one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def overflow(page: Page) -> list[str]:
    """Return by how much a page is wider than its window, if it is."""
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    width = page.evaluate("window.innerWidth")
    return [f"{page.url}: {wider} px wider than a window of {width} px"] if wider > 0 else []
