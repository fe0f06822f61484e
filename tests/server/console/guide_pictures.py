"""The pictures in guides: pages of the console in the light theme, each with its page's snapshot.

Beside a picture is the hash of the snapshot that its page had then. `make screens` takes the
pictures whose snapshots have changed since.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from tests.server.console.browsing import WIDTH

ROOT: Final = Path(__file__).resolve().parents[3]
PICTURES: Final = ROOT / "docs" / "guide" / "pictures"
HASHES: Final = PICTURES / "snapshots.json"
STORED: Final = Path(__file__).with_name("screens")
GUIDES: Final = {
    "alerts-that-fire": 480,
    "audits": 300,
    "commit-that-waits": 640,
    "dataset-that-fell-behind": 780,
    "drift": 300,
    "featureset": 560,
    "jobs": 560,
    "lineage": 640,
    "metrics": 740,
}
"""The pages of which guides have pictures, and the height of each picture in CSS pixels."""

QUALITY: Final = 70
MOST_BYTES: Final = 60_000


def snapshot_hash(name: str) -> str:
    """Return the SHA-256 of a page's snapshot, in hexadecimal digits."""
    return hashlib.sha256((STORED / f"{name}.txt").read_bytes()).hexdigest()


def stored_hashes() -> dict[str, str]:
    """Return the hash of the snapshot that each picture's page had; empty before the first."""
    found: dict[str, str] = json.loads(HASHES.read_text()) if HASHES.exists() else {}
    return found


def write_pictures(page: Page, addresses: Mapping[str, str]) -> None:
    """Write the pictures that are missing, or whose page's snapshot has changed."""
    PICTURES.mkdir(exist_ok=True)
    hashes = stored_hashes()
    for name, address in addresses.items():
        target = PICTURES / f"{name}.webp"
        if target.exists() and hashes.get(name) == snapshot_hash(name):
            continue
        page.set_viewport_size({"width": WIDTH, "height": GUIDES[name]})
        page.goto(address)
        taken = page.context.new_cdp_session(page).send(
            "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
        )
        target.write_bytes(base64.b64decode(taken["data"]))
        hashes[name] = snapshot_hash(name)
    HASHES.write_text(json.dumps(dict(sorted(hashes.items())), indent=2) + "\n")
