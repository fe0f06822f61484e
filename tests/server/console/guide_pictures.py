"""The pictures in guides: pages of the console in the light theme; `make screens` takes them.

`make test` does not collect this file: a picture has the fonts of the machine.
"""

import base64
from pathlib import Path
from typing import Final

import attrs
import pytest
from playwright.sync_api import Browser

from tests.server.console.browsing import WIDTH, signed_in
from tests.server.console.ordinary_console import OrdinaryConsole

pytestmark = pytest.mark.postgres

ROOT: Final = Path(__file__).resolve().parents[3]
PICTURES: Final = ROOT / "docs" / "guide" / "pictures"
QUALITY: Final = 70
MOST_BYTES: Final = 60_000


@attrs.frozen
class GuidePicture:
    """The page of a picture, and the picture's height in CSS pixels."""

    path: str
    height: int
    is_of_trouble: bool = False


GUIDES: Final = {
    "alerts-that-fire": GuidePicture("alerts", 480, is_of_trouble=True),
    "audits": GuidePicture("audits", 300),
    "commit-that-waits": GuidePicture("commits/{waiting}", 640),
    "dataset-that-fell-behind": GuidePicture("datasets/Orders?span=day", 780, is_of_trouble=True),
    "drift": GuidePicture("drift", 300),
    "featureset": GuidePicture("features/Buyer", 560),
    "jobs": GuidePicture("jobs", 560),
    "lineage": GuidePicture("lineage", 640),
    "metrics": GuidePicture("metrics?span=day", 740, is_of_trouble=True),
}


@pytest.mark.parametrize("name", GUIDES)
def test_a_picture_is_taken(
    name: str, ordinary: OrdinaryConsole, troubled: str, browser: Browser
) -> None:
    picture = GUIDES[name]
    url = troubled if picture.is_of_trouble else ordinary.url
    with signed_in(browser, url, "light") as page:
        page.set_viewport_size({"width": WIDTH, "height": picture.height})
        page.goto(f"{url}/console/{ordinary.names(picture.path)}")
        taken = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
        )
    (PICTURES / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))
