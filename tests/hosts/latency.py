"""Asks the server of its own host for single keys; prints how long the answers took.

    python -m tests.hosts.latency URL PLACES

The token is in the environment. PLACES is a JSON object of places and their keys; a line of JSON
has the median and the 95th percentile of each place, ms. The places take turns.
"""

import json
import os
import sys
import time

import httpx

from tests.chaos.load import WATCHED_AT
from tests.chaos.verdict import quantiles

TURNS = 150
TIMEOUT_S = 20.0


def main() -> None:
    """Ask, and print."""
    url, places = sys.argv[1], json.loads(sys.argv[2])
    times: dict[str, list[float]] = {place: [] for place in places}
    headers = {"authorization": f"Bearer {os.environ['NARTHEX_TOKEN']}"}
    with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S) as client:
        for turn in range(TURNS):
            for place, keys in places.items():
                question = {"keys": [{"card": keys[turn % len(keys)]}], "timestamps": [WATCHED_AT]}
                began = time.perf_counter()
                client.post("/api/v1/dataset/CardVelocity/lookup", json=question).raise_for_status()
                times[place].append((time.perf_counter() - began) * 1e3)
    rounded = {place: [round(one, 2) for one in quantiles(of)] for place, of in times.items()}
    print(json.dumps(rounded))


if __name__ == "__main__":
    main()
