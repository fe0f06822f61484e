"""Asks the server of its own host again and again; prints one line of JSON per answer.

    python -m tests.hosts.reader URL

The token is in the environment. A line has the instants of the question and of the answer (seconds
of the machine's monotonic clock) and the number of watched rows; null if there was no answer.
"""

import json
import os
import sys
import time

import httpx

from tests.chaos.load import WATCHED_AT
from tests.chaos.rows import PROBE

EVERY_S = 0.25
TIMEOUT_S = 5.0


def ask(client: httpx.Client) -> int | None:
    """Return how many watched rows an answer has; None without an answer."""
    question = {"keys": [{"card": PROBE}], "timestamps": [WATCHED_AT]}
    try:
        answer = client.post("/api/v1/dataset/CardVelocity/lookup", json=question)
        answer.raise_for_status()
    except httpx.HTTPError:
        return None
    found = answer.json()
    return int(found["data"]["count_30d"][0] or 0) if found["found"][0] else 0


def main() -> None:
    """Ask until the output is closed."""
    headers = {"authorization": f"Bearer {os.environ['NARTHEX_TOKEN']}"}
    with httpx.Client(base_url=sys.argv[1], headers=headers, timeout=TIMEOUT_S) as client:
        while True:
            asked = time.monotonic()
            count = ask(client)
            line = {"asked": asked, "answered": time.monotonic(), "count": count}
            print(json.dumps(line), flush=True)
            time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
