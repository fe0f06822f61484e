"""A state machine with a model: commits, cancels, crashes, stops, time, collector, auditor.

Two server processes work on one ledger. The model knows which commits were asked for; after each
step every promise that must always hold is checked, and at the end, when all is quiet, that the
ledger, the stores and the model agree.
"""

from collections.abc import Callable, Iterable

import attrs
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from narthex.assets import AssetKind, TopicRole, TopicSpec
from narthex_ledger import CommitState
from narthex_stores import Crash
from tests.crash.invariants import broken_now, broken_when_quiet
from tests.crash.points import Kind
from tests.crash.scenarios import BOTH, NOTHING, ONE, TWO
from tests.crash.world import BLUEPRINTS, Life, World

WANTED = (ONE, TWO, BOTH, NOTHING)
BRANCHES = ("main", "dev")
AHEAD = 12
"""How many points ahead a fault is laid at most."""
SPEC = TopicSpec(role=TopicRole.DATASET, partitions=1)
DEADLY = (Kind.DIES_BEFORE_COMMIT, Kind.DIES_AFTER, Kind.NO_ANSWER, Kind.NO_ANSWER_NO_EFFECT)


@attrs.define
class Counts:
    """What a run of the machine did; a run in which nothing happened shows nothing."""

    steps: int = 0
    commits: int = 0
    cancels: int = 0
    crashes: int = 0
    strays: int = 0
    ended: dict[str, int] = attrs.field(factory=dict)


def machine(  # noqa: C901 (its rules are many and short)
    world: World, counts: Counts
) -> type[RuleBasedStateMachine]:
    """Make the machine that works on a world."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.run = world.run()
            self.run.__enter__()
            self.lives = [world.life(), world.life()]
            self.asked: dict[int, tuple[str, str]] = {}

        @invariant()
        def every_promise_holds(self) -> None:
            counts.steps += 1
            assert broken_now(world) == []

        @rule(wanted=st.sampled_from(WANTED), branch=st.sampled_from(BRANCHES), by=st.booleans())
        def ask(self, wanted: str, branch: str, *, by: bool) -> None:
            number = len(self.asked) + 1
            self.asked[number] = (branch, wanted)
            counts.commits += 1
            life = self.lives[by]
            self._do(by, lambda: life.submit(world.request(number, wanted, branch=branch)))

        @precondition(lambda self: self.asked)
        @rule(data=st.data(), by=st.booleans())
        def cancel(self, data: st.DataObject, *, by: bool) -> None:
            number = data.draw(st.sampled_from(sorted(self.asked)))
            commit_id = world.request(number, ONE).commit_id
            life = self.lives[by]
            counts.cancels += 1
            self._do(by, lambda: life.attempt(lambda: life.ledger.cancel(commit_id, actor="ada")))

        @rule(by=st.booleans())
        def look(self, *, by: bool) -> None:
            self._do(by, self.lives[by].recovery.look)

        @rule(by=st.booleans(), ahead=st.integers(0, AHEAD), kind=st.sampled_from(DEADLY))
        def look_and_meet_a_fault(self, ahead: int, kind: Kind, *, by: bool) -> None:
            self.lives[by].seam.lay(ahead, kind)
            self._do(by, self.lives[by].recovery.look)

        @rule()
        def supervise(self) -> None:
            world.catch_up()

        @rule(seconds=st.sampled_from((1.0, 6.0, 31.0, 61.0, 3_700.0, 8 * 86_400.0)))
        def wait(self, seconds: float) -> None:
            world.wait(seconds)

        @rule(by=st.booleans())
        def sweep(self, *, by: bool) -> None:
            life = self.lives[by]
            self._do(by, lambda: life.attempt(life.collector.sweep))

        @rule(by=st.booleans())
        def audit(self, *, by: bool) -> None:
            life = self.lives[by]
            self._do(by, lambda: life.attempt(life.auditor.audit))

        @rule(number=st.integers(0, 3))
        def leave_a_stray(self, number: int) -> None:
            counts.strays += 1
            store = world.stores[AssetKind.KAFKA_TOPIC].things
            store.create(f"nx_crash000_stray{number}", SPEC, asset_id=0, timeout_s=1.0)

        def teardown(self) -> None:
            try:
                self._end()
            finally:
                self.run.__exit__(None, None, None)

        def _end(self) -> None:
            last = world.life()
            world.settle(last)
            world.audit(last)
            world.settle(last)
            assert broken_when_quiet(world) == []
            self._agrees(last)

        def _agrees(self, last: Life) -> None:
            """Each branch binds exactly what its newest commit that happened wanted."""
            newest: dict[str, tuple[int, int]] = {}
            for number, (branch, _) in self.asked.items():
                view = last.ledger.commit(world.request(number, ONE).commit_id)
                counts.ended[view.state.value] = counts.ended.get(view.state.value, 0) + 1
                if view.state is CommitState.FINALIZED and view.seq is not None:
                    newest[branch] = max(newest.get(branch, (0, 0)), (view.seq, number))
            for branch, (seq, number) in newest.items():
                shown = last.ledger.branch(world.tenant, branch)
                assert (shown.head_seq, shown.serving_seq) == (seq, seq)
                manifest = last.ledger.manifest(world.request(number, ONE).commit_id)
                bound = {asset.fingerprint for asset in manifest.bindings.values()}
                wanted = BLUEPRINTS[self.asked[number][1]].assets
                assert bound == {asset.fingerprint for asset in wanted}

        def _do(self, by: bool, step: Callable[[], object]) -> None:
            """Take a step in one process; when it dies of it, another takes its place."""
            try:
                step()
            except Crash:
                counts.crashes += 1
                self.lives[by] = world.life()

    return Machine


def run(world: World, counts: Counts, *, seeds: Iterable[int], examples: int, steps: int) -> None:
    """Let the machine run once for each seed; the first broken promise ends it with its story."""
    plan = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    for number in seeds:
        chosen = seed(number)(machine(world, counts))
        run_state_machine_as_test(chosen, settings=plan)
