"""A page of the console as text: its contents, the boxes of its parts, and their colours.

The text depends on no font of the machine, no clock and no random id: letters have the width of a
made font, and instants and ids are replaced before the browser lays a page out.
"""

import base64
import functools
import io
import itertools
import re
from typing import Any, Final

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from playwright.sync_api import Page, Route

from tests.server.console.browsing import THEMES

UNIT: Final = 1000
LETTER: Final = 500
"""The width of each letter, in thousandths of its height."""

LETTERS: Final = (
    range(0x20, 0x180),
    range(0x2000, 0x2100),
    range(0x2190, 0x2200),
    range(0x25A0, 0x2780),
)
"""The letters, punctuation, arrows and symbols of the pages."""

GRID: Final = 8
"""Boxes are rounded to this many pixels."""

INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
LONG_ID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
HASH: Final = r"\b[0-9a-f]{16,64}\b"
SERVER: Final = re.compile(r"\bserver:[\w.-]+:\d+")

PARTS: Final = (
    "header.top, nav, main, h1, h2, p, .tools, .legend, .zoom, .scroll, table, thead, dl, ul.plain,"
    " .notice, details, svg.lineage, figure, svg.plot, form, footer"
)
COLOURED: Final = (
    "body, header.top, nav a, nav a[aria-current], main, h1, thead th, tbody td, tbody th, a,"
    " .scroll, .good, .wait, .bad, .soft, .status, .notice, dl.facts, dl.facts dt, button, footer,"
    " svg.lineage rect, svg.lineage rect.bar, svg.lineage path, svg.lineage text,"
    " svg.plot path.line, svg.plot path.axis, svg.plot rect.bar, svg.plot rect.gap"
)

BOXES: Final = """([selectors, grid]) => [...document.querySelectorAll(selectors)]
  .filter((part) => part.getClientRects().length)
  .map((part) => {
    const box = part.getBoundingClientRect();
    const round = (length) => Math.round(length / grid) * grid;
    const name = [part.tagName.toLowerCase(), ...part.classList].join(".");
    return [name, round(box.x), round(box.y + scrollY), round(box.width), round(box.height)];
  })"""

COLOURS: Final = """(selectors) => {
  const found = {};
  for (const selector of selectors.split(", ").map((one) => one.trim())) {
    const part = document.querySelector(selector);
    if (!part) continue;
    const style = getComputedStyle(part);
    found[selector] = part instanceof SVGElement
      ? `fill ${style.fill}, stroke ${style.stroke} ${style.strokeWidth}`
      : `${style.color} on ${style.backgroundColor}, border ${style.borderBottomColor}`
        + ` ${style.borderBottomWidth}, ${style.fontWeight} ${style.fontSize}`;
  }
  return found;
}"""


@functools.cache
def even_font() -> str:
    """Return a font, in base64, whose letters are all half as wide as they are high."""
    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    for point in ((50, 700), (450, 700), (450, 0)):
        pen.lineTo(point)
    pen.closePath()
    made = FontBuilder(UNIT, isTTF=True)
    made.setupGlyphOrder([".notdef", "letter"])
    made.setupCharacterMap(dict.fromkeys(itertools.chain(*LETTERS), "letter"))
    made.setupGlyf({".notdef": pen.glyph(), "letter": pen.glyph()})
    made.setupHorizontalMetrics({".notdef": (LETTER, 50), "letter": (LETTER, 50)})
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": "Even", "styleName": "Regular"})
    made.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    made.setupPost()
    written = io.BytesIO()
    made.save(written)
    return base64.b64encode(written.getvalue()).decode()


def steadied(text: str) -> str:
    """Replace instants and ids; the same id has the same replacement on a page."""
    numbers: dict[str, int] = {}
    # A page shows the first digits of an id; the link around them has all of it.
    shown = "|".join(rf"\b{first}\b" for first in dict.fromkeys(LONG_ID.findall(text)))
    ids = "|".join(one for one in (LONG_ID.pattern, HASH, shown) if one)

    def steady(found: re.Match[str]) -> str:
        number = numbers.setdefault(found[0][:8], len(numbers) + 1)
        digits = f"{number:08x}"
        if "-" in found[0]:
            return f"{digits}-0000-8000-8000-000000000000"
        return (digits + "0" * 64)[: len(found[0])]

    text = re.sub(ids, steady, SERVER.sub("server:host:1", text))
    return INSTANT.sub(
        lambda found: "2026-05-01T12:00:00+00:00" if "T" in found[0] else "2026-05-01 12:00:00",
        text,
    )


def steady_pages(page: Page, *, is_even: bool) -> None:
    """From now on, steady each page that a window loads; letters are even if wanted."""
    style = (
        "<style>@font-face { font-family: Even; src: url(data:font/ttf;base64,"
        f"{even_font()}) }} *, svg.lineage text {{ font-family: Even !important }}</style>"
    )

    def answer(route: Route) -> None:
        response = route.fetch()
        text = response.text()
        if "text/html" in response.headers.get("content-type", ""):
            head, script, tail = text.partition("<script>")
            text = steadied(head) + script + tail
            text = text.replace("</head>", f"{style}</head>") if is_even else text
        route.fulfill(response=response, body=text)

    page.route("**/console/**", answer)
    page.route("**/console?*", answer)


def screen_of(page: Page, address: str) -> str:
    """Return a page as text: its contents and boxes, and its colours in each theme."""
    written: list[str] = []
    boxes: list[list[Any]] = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.goto(address)
        page.evaluate("document.fonts.ready")
        if theme == THEMES[0]:
            boxes = page.evaluate(BOXES, [PARTS, GRID])
            written += [
                f"# {page.title()}",
                "",
                "## Contents",
                "",
                page.locator("body").aria_snapshot(),
                "",
                "## Boxes",
                "",
            ]
            written += [f"{name}: {x},{y} {width}x{height}" for name, x, y, width, height in boxes]
        else:
            assert page.evaluate(BOXES, [PARTS, GRID]) == boxes
        colours: dict[str, str] = page.evaluate(COLOURS, COLOURED)
        written += ["", f"## Colours, {theme}", ""]
        written += [f"{selector}: {one}" for selector, one in colours.items()]
    return "\n".join(written) + "\n"
