"""A state machine with a model: commits, branches, crashes, time, collector, auditor.

Two server processes work on one ledger. Branches are cloned, deleted, brought back and rolled back;
requests are cancelled, taken back and sent again; processes die at any point of anything. After
each step every promise that must always hold is checked, and that each branch binds, and shows its
readers, what the model foretold; at the end, when all is quiet, that all of it came about.
"""

from collections import Counter
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

from narthex_stores import Crash
from tests.crash.history import Foretold, History
from tests.crash.invariants import broken_now, broken_when_quiet
from tests.crash.points import Kind
from tests.crash.scenarios import BOTH, NOTHING, ONE, TWO, leave
from tests.crash.world import STRAY, Life, World

WANTED = (ONE, TWO, BOTH, NOTHING)
NAMES = st.sampled_from(("main", "dev", "exp"))
LIVES = st.sampled_from((0, 1))
AHEAD = 12
"""How many points ahead a fault is laid at most."""
DEADLY = (Kind.DIES_BEFORE_COMMIT, Kind.DIES_AFTER, Kind.NO_ANSWER, Kind.NO_ANSWER_NO_EFFECT)


@attrs.define
class Counts:
    """What a run of the machine did; a run in which nothing happened shows nothing."""

    steps: int = 0
    crashes: int = 0
    did: Counter[str] = attrs.field(factory=Counter)
    ended: Counter[str] = attrs.field(factory=Counter)


@attrs.frozen(kw_only=True)
class Asked:
    """A request as it is sent, and sent again; and how to foretell what it will bind."""

    send: Callable[[Life], object]
    foretell: Callable[[], Foretold]


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
            self.asked: list[Asked] = []
            self.history = History(world)

        @invariant()
        def every_promise_holds(self) -> None:
            counts.steps += 1
            assert broken_now(world) == []
            assert list(self.history.wrong()) == []

        @rule(wanted=st.sampled_from(WANTED), branch=NAMES, by=LIVES)
        def commit(self, wanted: str, branch: str, by: int) -> None:
            if branch not in world.branch_names():
                return
            request = world.request(self._next(), wanted, branch=branch)
            self._ask(
                by,
                "commit",
                lambda life: life.submit(request),
                lambda: self.history.foretell_deploy(wanted),
            )

        @rule(name=NAMES, source=NAMES, by=LIVES)
        def clone(self, name: str, source: str, by: int) -> None:
            wish = world.branch_request(self._next(), name)
            self._ask(
                by,
                "clone",
                lambda life: life.ledger.clone_branch(wish, source=source),
                lambda: self.history.foretell_clone(source),
            )

        @rule(name=NAMES, by=LIVES)
        def delete(self, name: str, by: int) -> None:
            wish = world.branch_request(self._next(), name)
            self._ask(
                by,
                "delete",
                lambda life: life.ledger.delete_branch(wish),
                lambda: self.history.foretell_deletion(name),
            )

        @rule(name=NAMES, by=LIVES)
        def undelete(self, name: str, by: int) -> None:
            wish = world.branch_request(self._next(), name)
            self._ask(
                by,
                "undelete",
                lambda life: life.ledger.undelete_branch(wish),
                lambda: self.history.foretell_return(name),
            )

        @rule(name=NAMES, to_seq=st.integers(1, 4), by=LIVES)
        def roll_back(self, name: str, to_seq: int, by: int) -> None:
            wish = world.branch_request(self._next(), name)
            self._ask(
                by,
                "roll_back",
                lambda life: life.ledger.roll_back(wish, to_seq=to_seq),
                lambda: self.history.foretell_rollback(name, to_seq),
            )

        @precondition(lambda self: self.asked)
        @rule(data=st.data(), by=LIVES)
        def ask_again(self, data: st.DataObject, by: int) -> None:
            number = data.draw(st.integers(1, len(self.asked)))
            self._send(by, number, "again")

        @precondition(lambda self: self.asked)
        @rule(data=st.data(), by=LIVES)
        def cancel(self, data: st.DataObject, by: int) -> None:
            commit_id = world.commit_id(data.draw(st.integers(1, len(self.asked))))
            self._take(by, "cancel", lambda life: life.ledger.cancel(commit_id, actor="ada"))

        @precondition(lambda self: self.asked)
        @rule(data=st.data(), by=LIVES)
        def take_back(self, data: st.DataObject, by: int) -> None:
            commit_id = world.commit_id(data.draw(st.integers(1, len(self.asked))))
            foretold = self.history.foretell_withdrawal(commit_id)
            self._take(by, "take_back", lambda life: life.recovery.roll_back(commit_id))
            self.history.ended(commit_id, foretold)

        @precondition(lambda self: self.asked)
        @rule(data=st.data(), by=LIVES)
        def step(self, data: st.DataObject, by: int) -> None:
            commit_id = world.commit_id(data.draw(st.integers(1, len(self.asked))))
            self._take(by, "step", lambda life: life.step(commit_id))

        @rule(by=LIVES)
        def look(self, by: int) -> None:
            self._take(by, "look", lambda life: life.recovery.look())

        @rule(by=LIVES, ahead=st.integers(0, AHEAD), kind=st.sampled_from(DEADLY))
        def meet_a_fault(self, by: int, ahead: int, kind: Kind) -> None:
            self.lives[by].seam.lay(ahead, kind)

        @rule()
        def supervise(self) -> None:
            world.catch_up()

        @rule(seconds=st.sampled_from((1.0, 6.0, 31.0, 61.0, 3_700.0, 8 * 86_400.0)))
        def wait(self, seconds: float) -> None:
            world.wait(seconds)

        @rule(by=LIVES)
        def sweep(self, by: int) -> None:
            self._take(by, "sweep", lambda life: life.collector.sweep())

        @rule(by=LIVES)
        def audit(self, by: int) -> None:
            self._take(by, "audit", lambda life: life.auditor.audit())

        @rule(number=st.integers(0, 3))
        def leave_a_stray(self, number: int) -> None:
            counts.did["stray"] += 1
            leave(world, f"{STRAY}{number}")

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
            assert list(self.history.wrong(when_quiet=True)) == []
            counts.ended.update(
                str(row["state"]) for row in world.rows("SELECT state FROM deploy_commit")
            )

        def _next(self) -> int:
            return len(self.asked) + 1

        def _ask(
            self,
            by: int,
            what: str,
            send: Callable[[Life], object],
            foretell: Callable[[], Foretold],
        ) -> None:
            self.asked.append(Asked(send=send, foretell=foretell))
            self._send(by, len(self.asked), what)

        def _send(self, by: int, number: int, what: str) -> None:
            asked = self.asked[number - 1]
            foretold = asked.foretell()
            self._take(by, what, asked.send)
            self.history.ended(world.commit_id(number), foretold)

        def _take(self, by: int, what: str, step: Callable[[Life], object]) -> None:
            """Take a step in one process; when it dies of it, another takes its place."""
            life = self.lives[by]
            try:
                counts.did[what] += life.attempt(lambda: step(life))
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
