"""The cost of the network between hosts: connections, and answers from near and far servers.

The virtual cables have the bandwidth of memory and the latency of a switch of the kernel. Each
answer reads the offsets of its index and a mark of each server first, wherever its key is.
"""

import json
import sys
from pathlib import Path

from narthex._ir.assets import IndexSpec
from narthex_stores.indexes.key_layout import IndexLayout
from narthex_stores.indexes.redis.members import IndexKeys
from tests.chaos.plant import Installation
from tests.chaos.rows import CARDS
from tests.hosts.machines import Host, run
from tests.hosts.platform import FIRST, KAFKA_PORT, SECOND, STORES, TOKEN, Platform

CONNECT = """
import socket, statistics, sys, time
times = []
for _ in range(200):
    began = time.perf_counter()
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
    times.append((time.perf_counter() - began) * 1e3)
print(statistics.median(times))
"""
"""Measures the time to connect to an address, ms."""

INDEX = "dataset/CardVelocity/index"


def measure_hops(found: Platform) -> dict[str, float]:
    """Return the median time to connect to a store's host, from there and from another, ms."""
    stores = found.hosts[STORES]
    return {
        f"from {name}": _connect_ms(found.hosts[name], stores.address) for name in (STORES, FIRST)
    }


def _connect_ms(host: Host, address: str) -> float:
    command = host.command(sys.executable, "-c", CONNECT, address, str(KAFKA_PORT))
    return round(float(run(*command)), 3)


def measure_answers(found: Platform, installation: Installation) -> dict[str, list[float]]:
    """Return the median and the 95th percentile of answers, ms, by where the key is stored.

    The keys are those whose primary server is on the host that answers, and on another one; then
    the same again while the cable of the host that answers is slowed.
    """
    places = _keys_by_host(found, installation)
    near = places.pop(SECOND)
    asked = {"same host": near, "other host": [key for keys in places.values() for key in keys]}
    times = _answers(found, asked)
    host = found.hosts[SECOND]
    host.slow()
    slowed = _answers(found, asked)
    host.unslow()
    return times | {f"{place}, slowed cable": figures for place, figures in slowed.items()}


def _answers(found: Platform, asked: dict[str, list[str]]) -> dict[str, list[float]]:
    command = (sys.executable, "-m", "tests.hosts.latency", found.url(SECOND), json.dumps(asked))
    environment = ("env", f"NARTHEX_TOKEN={TOKEN}", f"PYTHONPATH={Path.cwd()}")
    times: dict[str, list[float]] = json.loads(
        run(*found.hosts[SECOND].command(*environment, *command))
    )
    return times


def _keys_by_host(found: Platform, installation: Installation) -> dict[str, list[str]]:
    """Return the cards by the host whose server has them as a primary."""
    asset = installation.bound(INDEX)
    assert isinstance(asset.spec, IndexSpec)
    layout = IndexLayout(spec=asset.spec)
    # The slot of a key is that of its name and group, whatever the incarnation.
    keys = IndexKeys(asset.physical_name, external_id="")
    cards: dict[str, list[str]] = {host: [] for host in found.hosts}
    for number in range(CARDS):
        group = keys.group(layout.group((f"c{number}",)))
        cards[found.index_store.host_of(group)].append(f"c{number}")
    return cards
