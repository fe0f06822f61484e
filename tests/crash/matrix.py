"""The crash matrix: each point of each scenario goes wrong in each way, and all promises hold."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import attrs

from narthex_stores import Crash
from tests.crash.invariants import broken_now, broken_when_quiet
from tests.crash.points import Fault, FaultHook, FaultKind, OutcomeColumn, Point
from tests.crash.scenarios import Scenario
from tests.crash.world import ServerProcess, World

STOPPED_S = 60.0
"""How long a stopped process may take to be stopped, or to end once it is woken."""


@attrs.frozen(kw_only=True)
class RunResult:
    """The result of one run with its faults.

    Attributes:
        hit: Whether every fault happened; a run without its fault tests nothing.
    """

    scenario: str
    faults: tuple[Fault, ...]
    hit: bool
    broken: tuple[str, ...]


def points_of(world: World, scenario: Scenario) -> tuple[Point, ...]:
    """Tell a scenario without a fault, and list the points that its process passes."""
    with begun(world, scenario):
        life = world.life()
        scenario.when(world, life)
        passed = tuple(life.fault_hook.passed)
        scenario.then(world, life)
        broken = [*broken_when_quiet(world), *scenario.wrong_end(world)]
        if broken:
            raise AssertionError(f"{scenario.name}, without a fault: {broken}")
        return passed


def begun(world: World, scenario: Scenario) -> AbstractContextManager[None]:
    """Run in a world in which what a scenario begins with has happened."""
    return world.run(scenario.name, lambda: scenario.given(world, world.life()))


def faults_at(points: Iterable[Point]) -> Iterator[Fault]:
    """List every fault of every point."""
    for point in points:
        for kind in point.kinds:
            yield Fault(point, kind)


def run(world: World, scenario: Scenario, *faults: Fault) -> RunResult:
    """Tell a scenario with faults: one in its process, each further one in the next's recovery."""
    lives: list[ServerProcess] = []
    broken: list[str] = []
    with begun(world, scenario):
        try:
            broken += _tell(world, scenario, lives, faults)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what came of it)
            broken.append(f"{type(error).__name__}: {error}")
    hit = len(lives) >= len(faults) and all(life.fault_hook.hit for life in lives[: len(faults)])
    return RunResult(scenario=scenario.name, faults=faults, hit=hit, broken=tuple(broken))


def _tell(
    world: World, scenario: Scenario, lives: list[ServerProcess], faults: tuple[Fault, ...]
) -> Iterator[str]:
    def start() -> ServerProcess:
        number = len(lives)
        lives.append(world.life(FaultHook(faults[number] if number < len(faults) else None)))
        return lives[-1]

    first = start()
    stopped = _play(lambda: scenario.when(world, first), first)
    yield from broken_now(world)
    for _ in faults[1:]:
        dying = start()
        _play(lambda dying=dying: scenario.then(world, dying), dying)
        yield from broken_now(world)
    last = start()
    scenario.then(world, last)
    yield from broken_when_quiet(world)
    if stopped is not None:
        first.fault_hook.woken.set()
        stopped.join(STOPPED_S)
        if stopped.is_alive():
            yield "a woken process never ended"
        yield from broken_now(world)
        world.audit(last)
        world.settle(last)
    scenario.when(world, last)
    scenario.then(world, last)
    yield from broken_when_quiet(world)
    yield from scenario.wrong_end(world)


def _play(play: Callable[[], None], life: ServerProcess) -> threading.Thread | None:
    """Play until the end or the process's death; a stopped process is given back."""
    if life.fault_hook.fault is None or life.fault_hook.fault.kind is not FaultKind.STOPPED:
        _until_death(play)
        return None

    def go() -> None:
        _until_death(play)
        life.fault_hook.stopped.set()

    thread = threading.Thread(target=go, name="stopped", daemon=True)
    thread.start()
    life.fault_hook.stopped.wait(STOPPED_S)
    return thread


def _until_death(play: Callable[[], None]) -> None:
    try:
        play()
    except Crash:
        return


@attrs.define
class Matrix:
    """The results of all faults: a row per point, a column per knowledge of its effect."""

    hits: dict[str, dict[OutcomeColumn, int]] = attrs.field(factory=dict)
    failed: list[RunResult] = attrs.field(factory=list)
    missed: list[RunResult] = attrs.field(factory=list)
    runs: int = 0
    pairs: int = 0
    scenarios: dict[str, int] = attrs.field(factory=dict)

    def add(self, outcome: RunResult) -> None:
        """Count a run, if its faults have happened."""
        self.runs += 1
        if outcome.broken:
            self.failed.append(outcome)
        if not outcome.hit:
            self.missed.append(outcome)
            return
        self.pairs += len(outcome.faults) > 1
        self.scenarios[outcome.scenario] = self.scenarios.get(outcome.scenario, 0) + 1
        for fault in outcome.faults[:1]:
            row = self.hits.setdefault(fault.point.name, dict.fromkeys(OutcomeColumn, 0))
            row[fault.kind.column] += 1

    def plain(self) -> dict[str, Any]:
        """Render for machines, and for `reports.lines`."""
        return {
            "runs": self.runs,
            "pairs": self.pairs,
            "points": {
                name: {column.value: count for column, count in row.items()}
                for name, row in sorted(self.hits.items())
            },
            "scenarios": self.scenarios,
            "failed": [_plain(outcome) for outcome in self.failed],
            "missed": [_plain(outcome) for outcome in self.missed],
        }


def _plain(outcome: RunResult) -> dict[str, object]:
    return {
        "scenario": outcome.scenario,
        "faults": [[f.point.number, f.point.name, f.kind.words] for f in outcome.faults],
        "hit": outcome.hit,
        "broken": list(outcome.broken[:5]),
    }


def singles(world: World, scenarios: Iterable[Scenario]) -> Iterator[Callable[[], RunResult]]:
    """List every run with one fault."""
    for scenario in scenarios:
        for fault in faults_at(points_of(world, scenario)):
            yield lambda s=scenario, f=fault: run(world, s, f)


def all_pairs(world: World, scenario: Scenario) -> Iterator[Callable[[], RunResult]]:
    """List every run with a second fault while the first one is recovered from."""
    for first in _firsts(world, scenario):
        for second in _seconds(world, scenario, first):
            yield lambda f=first, s=second: run(world, scenario, f, s)


def some_pairs(
    world: World, scenario: Scenario, *, seeds: Iterable[str]
) -> Iterator[Callable[[], RunResult]]:
    """List a run for each seed, with a second fault while the first one is recovered from."""
    firsts = _firsts(world, scenario)
    for seed in seeds:
        rng = Random(seed)  # noqa: S311 (no secret)
        first = rng.choice(firsts)
        second = rng.choice(_seconds(world, scenario, first))
        yield lambda f=first, s=second: run(world, scenario, f, s)


def _firsts(world: World, scenario: Scenario) -> list[Fault]:
    return [f for f in faults_at(points_of(world, scenario)) if f.kind in _DEADLY]


def _seconds(world: World, scenario: Scenario, first: Fault) -> list[Fault]:
    recovery = _recovery_of(world, scenario, first)
    return [second for second in faults_at(recovery) if second.kind is not FaultKind.STOPPED]


_DEADLY = frozenset({FaultKind.DIES_BEFORE_COMMIT, FaultKind.DIES_AFTER})


def _recovery_of(world: World, scenario: Scenario, first: Fault) -> tuple[Point, ...]:
    """List the points that the process passes which recovers from a fault."""
    with begun(world, scenario):
        dead = world.life(FaultHook(first))
        _until_death(lambda: scenario.when(world, dead))
        life = world.life()
        scenario.then(world, life)
        return tuple(life.fault_hook.passed)
