"""One run: load, faults, quiet, verdict."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from tests.chaos.faults import Fault, kind_of, planned, strike
from tests.chaos.load import Load
from tests.chaos.plant import Installation, NotReachedError, plant
from tests.chaos.verdict import Difference, examples_of, judge, quantiles, recoveries
from tests.spark_cluster import LOCAL
from tests.spark_events import misplaced, where_tasks_ran

WARM_S = 5.0

Tell = Callable[[str], None]


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options of a run.

    Attributes:
        minutes: The time during which faults hit.
        faults: The approximate number of faults.
        rate: Payments a second.
        spark: `local`, or `cluster` for drivers on a cluster of a master and two workers.
        within_s: How long the platform may take to come up, and to drain what is left.
    """

    seed: int
    minutes: float
    faults: int
    rate: float = 40.0
    supervisors: int = 2
    spark: str = LOCAL
    within_s: float = 300.0


@attrs.frozen(kw_only=True)
class RunResult:
    """The result of a run.

    Attributes:
        missed: The victims that did not run when they were to be hit.
        settled_s: How long after the last fault all was drained.
        slowest_call_s: The longest that a call was made again until it was accepted.
        recovery_s: By victim, from a kill to the first new row visible.
        tasks: How many tasks each executor of the cluster ran, by the title of their job.
        misplaced: Why the executors of the cluster did not run everything.
        unsettled: Why it was never drained.
    """

    wanted: RunOptions
    rows: int
    repeated: int
    faults: tuple[Fault, ...]
    missed: tuple[str, ...]
    settled_s: float
    slowest_call_s: float
    differences: dict[str, Difference]
    recovery_s: dict[str, list[float]]
    tasks: Mapping[str, Counter[str]] = attrs.field(factory=dict)
    misplaced: tuple[str, ...] = ()
    unsettled: str = ""

    @property
    def is_exact(self) -> bool:
        is_same = all(one.is_none for one in self.differences.values())
        return is_same and not self.unsettled and not self.misplaced

    def plain(self) -> dict[str, object]:
        """Render it for programs."""
        every = [seconds for one in self.recovery_s.values() for seconds in one]
        by_kind = Counter(f"{fault.what} {kind_of(fault.victim)}" for fault in self.faults)
        hit, missed = Counter(fault.victim for fault in self.faults), Counter(self.missed)
        return {
            "seed": self.wanted.seed,
            "spark": self.wanted.spark,
            "minutes": self.wanted.minutes,
            "rows": self.rows,
            "repeated_calls": self.repeated,
            "faults": len(self.faults),
            "faults_by_kind": dict(sorted(by_kind.items())),
            "missed": len(self.missed),
            "hit_and_missed": {
                victim: (hit[victim], missed[victim]) for victim in sorted({*hit, *missed})
            },
            "tasks_on_executors": {
                title: places.total() for title, places in sorted(self.tasks.items())
            },
            "misplaced": self.misplaced,
            "exact": self.is_exact,
            "unsettled": self.unsettled,
            "settled_s": round(self.settled_s, 1),
            "slowest_call_s": round(self.slowest_call_s, 1),
            "lost": sum(one.lost for one in self.differences.values()),
            "doubled": sum(one.doubled for one in self.differences.values()),
            "wrong": sum(one.wrong for one in self.differences.values()),
            "compared": {name: one.compared for name, one in self.differences.items()},
            "examples": examples_of(self.differences),
            "recovery_s": _summary(every),
            "recovery_s_by_victim": {k: _summary(v) for k, v in sorted(self.recovery_s.items())},
            "failure_probability_below": round(3 / max(1, len(self.faults)), 4),
        }


def _summary(seconds: list[float]) -> dict[str, object]:
    if not seconds:
        return {"count": 0}
    middle, high = quantiles(seconds)
    each = [round(one, 1) for one in seconds]
    return {"count": len(each), "p50": round(middle, 2), "p95": round(high, 2), "each": each}


def run(wanted: RunOptions, home: Path, tell: Tell) -> RunResult:
    """Start a platform in an empty directory, let faults hit it, and judge the end state.

    Raises:
        NotReachedError: The platform did not come up.
    """
    tell("starting the platform")
    with plant(
        home, supervisors=wanted.supervisors, spark=wanted.spark, within_s=wanted.within_s
    ) as found:
        load = Load(found, seed=wanted.seed, rate=wanted.rate)
        load.start()
        time.sleep(WARM_S)
        faults, missed = _strike_all(found, wanted, tell)
        quiet_since = time.monotonic()
        tell("no more faults; waiting until all is drained")
        sent = load.stop()
        unsettled = ""
        try:
            found.settle(within_s=wanted.within_s)
        except NotReachedError as error:
            unsettled = str(error)
        settled_s = time.monotonic() - quiet_since
        load.end()
        tell(f"{len(sent.rows)} rows; comparing with the reference")
        tasks = where_tasks_ran(found.cluster.events) if found.cluster is not None else {}
        return RunResult(
            wanted=wanted,
            rows=len(sent.rows),
            repeated=sent.repeated,
            faults=tuple(faults),
            missed=tuple(missed),
            settled_s=settled_s,
            slowest_call_s=max(sent.waits),
            differences=judge(found, sent),
            recovery_s=recoveries(sent, faults),
            tasks=tasks,
            misplaced=tuple(misplaced(tasks)) if found.cluster is not None else (),
            unsettled=unsettled,
        )


def _strike_all(
    found: Installation, wanted: RunOptions, tell: Tell
) -> tuple[list[Fault], list[str]]:
    """Inject faults for the given time; return those that hit, and the victims of the others."""
    faults: list[Fault] = []
    missed: list[str] = []
    ends_at = time.monotonic() + wanted.minutes * 60
    every_s = wanted.minutes * 60 / max(1, wanted.faults)
    for fault in planned(
        wanted.seed, every_s=every_s, supervisors=wanted.supervisors, spark=wanted.spark
    ):
        if time.monotonic() + fault.after_s > ends_at or len(faults) >= wanted.faults:
            break
        time.sleep(fault.after_s)
        hit = strike(found, fault)
        if hit is None:
            missed.append(fault.victim)
        else:
            faults.append(hit)
        tell(f"{len(faults):4} {fault.what} {fault.victim}: {'hit' if hit else 'missed'}")
    return faults, missed
