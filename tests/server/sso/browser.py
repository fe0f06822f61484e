"""A browser that a command opens: it signs in at the provider, and clicks on the link at the end.

Start it with the path of this file and the address.
"""

import re
import sys
from html import unescape
from typing import Final

import httpx

LINK: Final = re.compile(r'<a href="(http://127\.0\.0\.1:[^"]*)"')
"""The link to the command that waits."""


def main(address: str) -> None:
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        page = browser.get(address)
        found = LINK.search(page.text)
        assert found is not None, page.text
        browser.get(unescape(found[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
