"""One run: load, faults, quiet, verdict."""

import time
from collections.abc import Callable
from pathlib import Path

import attrs

from tests.chaos.faults import Fault, planned, strike
from tests.chaos.load import Load
from tests.chaos.plant import Installation, NotReachedError, plant
from tests.chaos.verdict import Difference, examples_of, judge, quantiles, recoveries

WARM_S = 5.0

Tell = Callable[[str], None]


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options of a run.

    Attributes:
        minutes: The time during which faults hit.
        faults: The approximate number of faults.
        rate: Payments a second.
        within_s: How long the platform may take to come up, and to drain  what is left.
    """

    seed: int
    minutes: float
    faults: int
    rate: float = 40.0
    supervisors: int = 2
    within_s: float = 300.0


@attrs.frozen(kw_only=True)
class RunResult:
    """The result of a run.

    Attributes:
        missed: Faults whose victim did not run.
        settled_s: How long after the last fault all was drained .
        slowest_call_s: The longest that a call was made again until it was accepted.
        recovery_s: By victim, from a kill to the first new row visible.
        unsettled: Why it was never drained .
    """

    wanted: RunOptions
    rows: int
    repeated: int
    faults: tuple[Fault, ...]
    missed: int
    settled_s: float
    slowest_call_s: float
    differences: dict[str, Difference]
    recovery_s: dict[str, list[float]]
    unsettled: str = ""

    @property
    def is_exact(self) -> bool:
        return not self.unsettled and all(one.is_none for one in self.differences.values())

    def plain(self) -> dict[str, object]:
        """Render it for programs."""
        every = [seconds for one in self.recovery_s.values() for seconds in one]
        by_kind: dict[str, int] = {}
        for fault in self.faults:
            name = f"{fault.what} {fault.victim.rpartition('/')[2].partition('-')[0]}"
            by_kind[name] = by_kind.get(name, 0) + 1
        return {
            "seed": self.wanted.seed,
            "minutes": self.wanted.minutes,
            "rows": self.rows,
            "repeated_calls": self.repeated,
            "faults": len(self.faults),
            "faults_by_kind": dict(sorted(by_kind.items())),
            "missed": self.missed,
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
        GaveUpError: The platform did not come up.
    """
    tell("starting the platform")
    with plant(home, supervisors=wanted.supervisors, within_s=wanted.within_s) as found:
        load = Load(found, seed=wanted.seed, rate=wanted.rate)
        load.start()
        time.sleep(WARM_S)
        faults, missed = _strike_all(found, wanted, tell)
        quiet_since = time.monotonic()
        tell("no more faults; waiting until all is drained ")
        sent = load.stop()
        unsettled = ""
        try:
            found.settle(within_s=wanted.within_s)
        except NotReachedError as error:
            unsettled = str(error)
        settled_s = time.monotonic() - quiet_since
        load.end()
        tell(f"{len(sent.rows)} rows; comparing with the reference")
        return RunResult(
            wanted=wanted,
            rows=len(sent.rows),
            repeated=sent.repeated,
            faults=tuple(faults),
            missed=missed,
            settled_s=settled_s,
            slowest_call_s=max(sent.waits),
            differences=judge(found, sent),
            recovery_s=recoveries(sent, faults),
            unsettled=unsettled,
        )


def _strike_all(found: Installation, wanted: RunOptions, tell: Tell) -> tuple[list[Fault], int]:
    """Inject faults for the given time; return those that hit, and the number of misses."""
    faults: list[Fault] = []
    missed = 0
    ends_at = time.monotonic() + wanted.minutes * 60
    every_s = wanted.minutes * 60 / max(1, wanted.faults)
    for fault in planned(wanted.seed, every_s=every_s, supervisors=wanted.supervisors):
        if time.monotonic() + fault.after_s > ends_at or len(faults) >= wanted.faults:
            break
        time.sleep(fault.after_s)
        hit = strike(found, fault)
        if hit is None:
            missed += 1
        else:
            faults.append(hit)
        tell(f"{len(faults):4} {fault.what} {fault.victim}: {'hit' if hit else 'missed'}")
    return faults, missed
