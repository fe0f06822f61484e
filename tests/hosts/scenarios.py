"""Scenarios that happen to hosts under load."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import httpx

from narthex._ir.assets import AssetKind, Trigger
from tests.chaos.load import SentRows
from tests.chaos.plant import Installation, wait_until
from tests.hosts.answers import Readers, answer_times, count_by_host, hosts_of
from tests.hosts.platform import SECOND, WORKERS, Platform

QUIET_S = 5.0
"""How long a scenario waits before and after what it does."""
CUT_S = 25.0
"""Longer than a lease of slots: other hosts take them meanwhile."""
SLOW_S = 20.0
BACK_WITHIN_S = 240.0
SHARDED = "CardStandings"
"""A dataset whose index has several shards."""

Tell = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Trial:
    """The platform under load, and the programs that ask it: a scenario acts on them."""

    platform: Platform
    installation: Installation
    readers: Readers
    sent: SentRows


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of one scenario.

    Attributes:
        visible_s: How long after the fault the first row that was sent after it was visible.
        answered: How many questions each host's server answered from the fault to the end.
        unanswered: How many it did not answer.
        answer_ms: How long the answers took.
    """

    name: str
    visible_s: float | None
    answered: dict[str, int]
    unanswered: dict[str, int]
    answer_ms: dict[str, dict[str, float]]
    note: str = ""


class Scenario(Protocol):
    """Does something to hosts; returns what to report about it."""

    def __call__(self, trial: Trial, /) -> str: ...


def move_slots(trial: Trial) -> str:
    """Stop the supervisor of an index's shard, which returns its slots, and start it again."""
    before = _hosts_of_shards(trial)
    host = before[0]
    trial.platform.stop_supervisor(host, within_s=60.0)
    after = wait_until(
        lambda: _moved(_hosts_of_shards(trial), host), within_s=60.0, what=f"shards left `{host}`"
    )
    time.sleep(QUIET_S)
    trial.platform.start_supervisor(host)
    return f"the shards of {SHARDED} moved from {', '.join(before)} to {', '.join(after)}"


def _moved(hosts: list[str], host: str) -> list[str]:
    """Return the hosts of shards; none until all have left a host for others."""
    return hosts if all(hosts) and host not in hosts else []


def _hosts_of_shards(trial: Trial) -> list[str]:
    """Return the host of each shard of the index that has several, in their order."""
    jobs = _wait_owned(trial.installation)
    feed = next(
        job for job in jobs if job["label"] == SHARDED and job["kind"] == AssetKind.INDEX_FEED.value
    )
    return [trial.platform.host_of(shard["owner"]) for shard in feed["shards"]]


def cut_link(trial: Trial) -> str:
    """Cut the second host off for longer than its leases last."""
    host = trial.platform.hosts[SECOND]
    host.cut()
    time.sleep(CUT_S)
    host.join()
    trial.platform.index_store.balance()
    return f"`{SECOND}` was cut off for {CUT_S:.0f} s"


def slow_link(trial: Trial) -> str:
    """Slow the second host's cable."""
    host = trial.platform.hosts[SECOND]
    how = host.slow()
    time.sleep(SLOW_S)
    host.unslow()
    return f"the cable of `{SECOND}` was slowed ({how}) for {SLOW_S:.0f} s"


def lose_host(trial: Trial) -> str:
    """Kill the host of a sink with its disk; bring it back empty once its leases have ended."""
    platform = trial.platform
    host, jobs = _host_of_a_sink(trial)
    killed = platform.lose(host)
    time.sleep(CUT_S)
    platform.start_index_servers(host)
    platform.index_store.readmit(host)
    platform.start_worker(host)
    trial.readers.start(host)
    return f"`{host}` lost {killed} processes, with {', '.join(jobs)}, and its disk"


def _host_of_a_sink(trial: Trial) -> tuple[str, list[str]]:
    """Return the host whose supervisor runs a sink, and the labels of its jobs with a state."""
    jobs = _wait_owned(trial.installation)
    sink = next(job for job in jobs if _is_sink(job))
    same = [job for job in jobs if job["owner"] == sink["owner"] and _has_state(job)]
    return trial.platform.host_of(sink["owner"]), sorted(str(job["label"]) for job in same)


def _wait_owned(installation: Installation) -> list[dict[str, Any]]:
    """Return all jobs, once a supervisor holds the slot of each shard."""
    return wait_until(lambda: _all_owned(installation), within_s=60.0, what="shards have owners")


def _all_owned(installation: Installation) -> list[dict[str, Any]]:
    try:
        jobs = installation.jobs()
    except httpx.HTTPError:
        return []
    return jobs if all(shard["owner"] for job in jobs for shard in job["shards"]) else []


def _is_sink(job: dict[str, Any]) -> bool:
    return " → " in str(job["label"])


def _has_state(job: dict[str, Any]) -> bool:
    return _is_sink(job) or job["trigger"] == Trigger.STATEFUL.value


SCENARIOS: dict[str, Scenario] = {
    "move-slots": move_slots,
    "slow-link": slow_link,
    "cut-link": cut_link,
    "lose-host": lose_host,
}


def play(name: str, trial: Trial, tell: Tell) -> Outcome:
    """Run one scenario, and wait until all hosts show rows that were sent after it.

    Raises:
        NotReachedError: They do not.
    """
    sent, readers = trial.sent, trial.readers
    time.sleep(QUIET_S)
    began, first = time.monotonic(), len(sent.probes) + 1
    note = SCENARIOS[name](trial)
    ended, acted = time.monotonic(), len(sent.probes) + 1
    wait_until(
        lambda: any(number in sent.visible for number in range(acted, len(sent.probes) + 1)),
        within_s=BACK_WITHIN_S,
        what=f"new rows are visible after {name}",
    )
    wait_until(
        lambda: hosts_of(readers.since(ended)) == set(WORKERS),
        within_s=BACK_WITHIN_S,
        what=f"the servers of all hosts answer after {name}",
    )
    time.sleep(QUIET_S)
    shown = next((sent.visible[n] for n in range(first, acted + 1) if n in sent.visible), None)
    answers = readers.since(began)
    outcome = Outcome(
        name=name,
        visible_s=None if shown is None else round(shown - began, 2),
        answered=count_by_host(answers, is_answered=True),
        unanswered=count_by_host(answers, is_answered=False),
        answer_ms={host: answer_times(answers, host) for host in WORKERS},
        note=note,
    )
    tell(f"{name}: {note}; {outcome.visible_s} s to a new row; answered {outcome.answered}")
    return outcome
