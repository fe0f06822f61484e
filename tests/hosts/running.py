"""One run: three hosts, load, scenarios, quiet, measurements, verdict."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from tests.chaos.load import Load
from tests.chaos.plant import Installation, NotReachedError
from tests.chaos.verdict import Difference, examples_of, judge
from tests.hosts.answers import Answer, answer_times, hosts_of, reading, stale
from tests.hosts.capacity import JobRate, measure_capacity
from tests.hosts.hops import measure_answers, measure_hops
from tests.hosts.platform import WORKERS, Platform, platform
from tests.hosts.scenarios import SCENARIOS, Outcome, Trial, play
from tests.spark_events import misplaced, where_tasks_ran

Tell = Callable[[str], None]

WARM_S = 10.0


@attrs.frozen(kw_only=True)
class HostsOptions:
    """The options of a run.

    Attributes:
        scenarios: Their names, in order.
        spark: `local`, or `cluster` for a master and workers on the hosts.
        rate: Rows a second.
        within_s: How long the platform may take to come up, and to drain its topics.
    """

    scenarios: Sequence[str]
    spark: str
    seed: int
    rate: float
    within_s: float


@attrs.frozen(kw_only=True)
class Measurements:
    """The rates and times of the platform while nothing happens to its hosts.

    Attributes:
        connect_ms: The median time to connect to the host of the stores, from itself and from
            another.
        answer_ms: The median and the 95th percentile of answers by the place of their key.
        capacity: The rates of jobs while a backlog was drained.
    """

    connect_ms: dict[str, float] = attrs.field(factory=dict)
    answer_ms: dict[str, list[float]] = attrs.field(factory=dict)
    capacity: Sequence[JobRate] = ()

    def plain(self) -> dict[str, object]:
        """Render it for programs."""
        return {
            "connect_ms": self.connect_ms,
            "answer_ms": self.answer_ms,
            "capacity": {
                rate.job: {
                    "records": rate.records,
                    "seconds": round(rate.seconds, 1),
                    "shards": rate.shards,
                    "records_per_s_and_shard": round(rate.per_shard),
                }
                for rate in self.capacity
            },
        }


@attrs.frozen(kw_only=True)
class HostsResult:
    """The result of a run.

    Attributes:
        stale: Answers that were older than what a reader had seen before.
        answers: Every question of the readers, and when it was answered.
        misplaced: Why the executors of a cluster did not run everything; empty without a cluster.
    """

    rows: int
    rows_per_s: float
    outcomes: Sequence[Outcome]
    differences: dict[str, Difference]
    stale: Sequence[Answer]
    answers: Sequence[Answer]
    measurements: Measurements
    settled_s: float
    misplaced: Sequence[str] = ()
    unsettled: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether nothing is lost, doubled, wrong or misplaced, and no answer missing or stale."""
        is_same = all(difference.is_none for difference in self.differences.values())
        is_read = hosts_of(self.answers) == set(WORKERS)
        return is_same and is_read and not (self.stale or self.unsettled or self.misplaced)

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
            "answers": {host: answer_times(self.answers, host) for host in WORKERS},
            "stale": [attrs.asdict(answer) for answer in self.stale[:10]],
            "stale_answers": len(self.stale),
            **self.measurements.plain(),
            "settled_s": round(self.settled_s, 1),
            "misplaced": self.misplaced,
            "unsettled": self.unsettled,
            "scenarios": [attrs.asdict(outcome) for outcome in self.outcomes],
        }


def run_hosts(wanted: HostsOptions, home: Path, tell: Tell) -> HostsResult:
    """Run scenarios one after the other on one platform, and judge the end state.

    Raises:
        NotReachedError: The platform did not come up, or did not recover from a scenario.
    """
    within_s = wanted.within_s
    unknown = [name for name in wanted.scenarios if name not in SCENARIOS]
    if unknown:
        raise NotReachedError(f"no scenario is `{unknown[0]}`; there are {', '.join(SCENARIOS)}")
    tell("starting three hosts")
    with (
        platform(home, spark=wanted.spark, within_s=within_s) as (hosts, installation),
        reading(hosts) as readers,
    ):
        tell("the platform serves; load begins")
        load = Load(installation, seed=wanted.seed, rate=wanted.rate)
        trial = Trial(platform=hosts, installation=installation, readers=readers, sent=load.sent)
        began = time.monotonic()
        load.start()
        time.sleep(WARM_S)
        outcomes = [play(name, trial, tell) for name in wanted.scenarios]
        sent = load.stop()
        took, settled_s, unsettled = time.monotonic() - began, 0.0, ""
        rows_per_s, measurements = len(sent.rows) / took, Measurements()
        try:
            stopped = time.monotonic()
            installation.settle(within_s=within_s)
            settled_s = time.monotonic() - stopped
            readers.stop()
            measurements = _measure(hosts, installation, load, within_s=within_s)
        except NotReachedError as error:
            unsettled = str(error)
        load.end()
        answers = tuple(readers.answers)
        tell(f"{len(sent.rows)} rows, {len(answers)} answers; comparing with the reference")
        return HostsResult(
            rows=len(sent.rows),
            rows_per_s=rows_per_s,
            outcomes=outcomes,
            differences=judge(installation, sent),
            stale=stale(answers),
            answers=answers,
            measurements=measurements,
            settled_s=settled_s,
            misplaced=misplaced(where_tasks_ran(hosts.spark.events)) if hosts.spark else (),
            unsettled=unsettled,
        )


def _measure(
    hosts: Platform, installation: Installation, load: Load, *, within_s: float
) -> Measurements:
    return Measurements(
        connect_ms=measure_hops(hosts),
        answer_ms=measure_answers(hosts, installation),
        capacity=measure_capacity(installation, load.burst, within_s=within_s),
    )
