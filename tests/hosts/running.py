"""One run: three hosts, load, scenarios, quiet, verdict."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from tests.chaos.load import Load
from tests.chaos.plant import NotReachedError
from tests.chaos.verdict import Difference, examples_of, judge, quantiles
from tests.hosts.machines import Host, run
from tests.hosts.platform import FIRST, KAFKA_PORT, STORES, WORKERS, Platform, platform
from tests.hosts.scenarios import SCENARIOS, Answer, Outcome, play, reading, stale

Tell = Callable[[str], None]

WARM_S = 10.0
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


@attrs.frozen(kw_only=True)
class HostsResult:
    """The result of a run.

    Attributes:
        stale: Answers that were older than what a reader had seen before.
        answers: Every question of the readers, and when it was answered.
        hop_ms: The median time to connect to the host of the stores, from itself and from another.
    """

    rows: int
    rows_per_s: float
    outcomes: Sequence[Outcome]
    differences: dict[str, Difference]
    stale: Sequence[Answer]
    answers: Sequence[Answer]
    hop_ms: dict[str, float]
    settled_s: float
    unsettled: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether nothing is lost, doubled or wrong, both servers answered, and none was stale."""
        is_same = all(difference.is_none for difference in self.differences.values())
        is_read = {answer.host for answer in self.answers if answer.count} == set(WORKERS)
        return is_same and is_read and not self.stale and not self.unsettled

    def plain(self) -> dict[str, object]:
        """Render it for programs."""
        differences = self.differences.values()
        return {
            "exact": self.is_exact,
            "rows": self.rows,
            "rows_per_s": round(self.rows_per_s, 1),
            "lost": sum(one.lost for one in differences),
            "doubled": sum(one.doubled for one in differences),
            "wrong": sum(one.wrong for one in differences),
            "compared": {name: one.compared for name, one in self.differences.items()},
            "examples": examples_of(self.differences),
            "answers": {host: _times(self.answers, host) for host in WORKERS},
            "stale": [attrs.asdict(answer) for answer in self.stale[:10]],
            "stale_answers": len(self.stale),
            "hop_ms": self.hop_ms,
            "settled_s": round(self.settled_s, 1),
            "unsettled": self.unsettled,
            "scenarios": [attrs.asdict(outcome) for outcome in self.outcomes],
        }


def run_hosts(
    names: Sequence[str], home: Path, tell: Tell, *, seed: int, rate: float, within_s: float
) -> HostsResult:
    """Run scenarios one after the other on one platform, and judge the end state.

    Raises:
        NotReachedError: The platform did not come up, or did not recover from a scenario.
    """
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise NotReachedError(f"no scenario is `{unknown[0]}`; there are {', '.join(SCENARIOS)}")
    tell("starting three hosts")
    with platform(home, within_s=within_s) as (hosts, installation), reading(hosts) as readers:
        tell("the platform serves; load begins")
        load = Load(installation, seed=seed, rate=rate)
        began = time.monotonic()
        load.start()
        time.sleep(WARM_S)
        outcomes = [
            play(name, hosts, installation, readers=readers, sent=load.sent, tell=tell)
            for name in names
        ]
        sent = load.stop()
        took, settled_s, unsettled = time.monotonic() - began, 0.0, ""
        try:
            stopped = time.monotonic()
            installation.settle(within_s=within_s)
            settled_s = time.monotonic() - stopped
        except NotReachedError as error:
            unsettled = str(error)
        load.end()
        answers = tuple(readers.answers)
        tell(f"{len(sent.rows)} rows, {len(answers)} answers; comparing with the reference")
        return HostsResult(
            rows=len(sent.rows),
            rows_per_s=len(sent.rows) / took,
            outcomes=outcomes,
            differences=judge(installation, sent),
            stale=stale(answers),
            answers=answers,
            hop_ms=measure_hops(hosts),
            settled_s=settled_s,
            unsettled=unsettled,
        )


def _times(answers: Sequence[Answer], host: str) -> dict[str, float]:
    """Return how many answers a host's server gave, and how long they took, ms."""
    of_host = [answer for answer in answers if answer.host == host]
    times = [(a.answered - a.asked) * 1e3 for a in of_host if a.count is not None]
    if not times:
        return {"asked": len(of_host), "answered": 0}
    middle, high = quantiles(times)
    figures = {"p50_ms": round(middle, 1), "p95_ms": round(high, 1)}
    return {"asked": len(of_host), "answered": len(times), **figures}


def measure_hops(found: Platform) -> dict[str, float]:
    """Return the median time to connect to a store's host, from there and from another, ms."""
    stores = found.hosts[STORES]
    return {
        f"from {name}": _connect_ms(found.hosts[name], stores.address) for name in (STORES, FIRST)
    }


def _connect_ms(host: Host, address: str) -> float:
    command = host.command(sys.executable, "-c", CONNECT, address, str(KAFKA_PORT))
    return round(float(run(*command)), 3)
