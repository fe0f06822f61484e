"""Compare the index on Redis servers with the embedded one; print a table and one line of JSON.

Both run in one process, one after the other, on the same facts; their answers are compared first.
The CPU-seconds of this process and of the servers that it started are reported separately.
`--servers 3` uses a cluster.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from bench.figures import report_result
from bench.index import LOG, index_spec, make_facts, same
from narthex._ir.assets import IndexSpec, LogShape
from narthex._ir.facts import Cell, Fact
from narthex_stores.indexes import (
    LmdbIndex,
    RedisIndex,
    RedisIndexAdapter,
    RedisServers,
    parse_address,
)
from tests.redis_servers import RedisNode, redis_cluster, redis_server

KEYS = 20_000
BATCH = 5_000
WINDOWS = ("1h", "1d", "7d")
_NAME = "nx_bench"


@attrs.frozen(kw_only=True)
class Spent:
    """CPU-seconds and wall-clock seconds."""

    client: float
    servers: float
    wall: float


@contextmanager
def servers_of(number: int) -> Iterator[list[RedisNode]]:
    """Run one server or a cluster of three."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        if number == 1:
            yield [stack.enter_context(redis_server(Path(directory)))]
        else:
            yield stack.enter_context(redis_cluster(Path(directory)))


def cpu_of(nodes: Sequence[RedisNode]) -> float:
    """Return the CPU-seconds that servers have spent."""
    found = [node.connect().info("cpu") for node in nodes]
    return sum(float(one["used_cpu_user"]) + float(one["used_cpu_sys"]) for one in found)


def measured(work: Callable[[], object], nodes: Sequence[RedisNode]) -> Spent:
    """Return the seconds that work takes."""
    servers, client, wall = cpu_of(nodes), time.process_time(), time.monotonic()
    work()
    return Spent(
        client=time.process_time() - client,
        servers=cpu_of(nodes) - servers,
        wall=time.monotonic() - wall,
    )


def apply_all(index: LmdbIndex | RedisIndex, facts: Sequence[Fact]) -> None:
    """Write facts in batches."""
    for start in range(0, len(facts), BATCH):
        index.apply(facts[start : start + BATCH], offsets={("t", 0): start}, epoch=1)


def look_up(
    index: LmdbIndex | RedisIndex, keys: Sequence[tuple[Cell, ...]], as_of: int, *, times: int
) -> list[object]:
    """Look the same keys up several times; return the last answers."""
    found: list[object] = []
    for _ in range(times):
        with index.read() as reader:
            found = list(reader.lookup(keys, [as_of] * len(keys)))
    return found


def specs() -> dict[str, IndexSpec]:
    """Return the indexes to measure."""
    keyed = attrs.evolve(LOG, shape=LogShape.KEYED)
    return {
        "4 aggregates, 3 windows": index_spec(WINDOWS),
        "correctable, 4 aggregates, 3 windows": index_spec(WINDOWS, correctable=True),
        "keyed rows": IndexSpec(log=keyed),
    }


def compared(
    name: str, spec: IndexSpec, facts: Sequence[Fact], nodes: Sequence[RedisNode]
) -> dict[str, float]:
    """Measure one index in both stores.

    Raises:
        SystemExit: The stores give different answers.
    """
    servers = RedisServers(parse_address(nodes[0].url))
    adapter = RedisIndexAdapter(connect=lambda: servers)
    adapter.create(_NAME, spec, asset_id=1, timeout_s=60.0)
    remote = RedisIndex(servers, _NAME, spec)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        local = LmdbIndex(Path(directory), spec)
        stores: dict[str, LmdbIndex | RedisIndex] = {"lmdb": local, "redis": remote}
        for store, index in stores.items():
            spent = measured(lambda index=index: apply_all(index, facts), nodes)
            figures |= told(f"write {name}, {store}", len(facts), spent)
        as_of = facts[-1].event_time
        for number, times in ((1, 500), (100, 50), (1_000, 5)):
            keys = [(f"user-{each * 7 % KEYS}",) for each in range(number)]
            answers = [look_up(index, keys, as_of, times=1) for index in stores.values()]
            if not all(same(a, b) for a, b in zip(*answers, strict=True)):
                raise SystemExit("the stores give different answers")
            for store, index in stores.items():
                spent = measured(
                    lambda index=index, keys=keys, times=times: look_up(
                        index, keys, as_of, times=times
                    ),
                    nodes,
                )
                label = f"read {name}, {number} keys, {store}"
                figures |= told(label, number * times, spent, calls=times)
        local.close()
    adapter.destroy(_NAME, external_id=None, timeout_s=60.0)
    return figures


def told(what: str, number: int, spent: Spent, *, calls: int | None = None) -> dict[str, float]:
    """Print a measurement; return its figures."""
    if calls is None:
        rate = number / (spent.client + spent.servers)
        print(
            f"{what:60} {rate:9,.0f} facts per CPU-second; us a fact: "
            f"{spent.client / number * 1e6:6.1f} client, "
            f"{spent.servers / number * 1e6:6.1f} servers"
        )
    else:
        print(
            f"{what:60} {spent.client / number * 1e6:7.1f} us client, "
            f"{spent.servers / number * 1e6:7.1f} servers a key; "
            f"{spent.wall / calls * 1e3:7.2f} ms a call"
        )
    return {
        f"{what}, client us": spent.client / number * 1e6,
        f"{what}, servers us": spent.servers / number * 1e6,
        f"{what}, wall us": spent.wall / number * 1e6,
    }


def main() -> None:
    """Measure each index on one server or three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--servers", type=int, choices=(1, 3), default=1)
    asked = parser.parse_args()
    facts = make_facts(asked.facts, keys=KEYS, days=7)
    figures: dict[str, float] = {}
    with servers_of(asked.servers) as nodes:
        for name, spec in specs().items():
            figures |= compared(name, spec, facts, nodes)
    report_result("index_store", {name: round(value, 1) for name, value in figures.items()})


if __name__ == "__main__":
    main()
