"""A state machine with a model: commits, branches, crashes, time, collector, auditor.

Two server processes work on one ledger. Branches are cloned, deleted, brought back and rolled back;
requests are cancelled, taken back and sent again; processes die at any point of anything. After
each step every promise that must always hold is checked, and that each branch binds, and shows its
readers, what the model foretold; at the end, when all is quiet, that all of it came about.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from uuid import UUID

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

from narthex_reference.generate import SEEDS_ALONE
from narthex_stores import Crash
from tests.crash.history import History, PredictedBindings
from tests.crash.invariants import broken_now, broken_when_quiet
from tests.crash.points import FaultKind
from tests.crash.scenarios import BOTH, NOTHING, ONE, TWO, leave
from tests.crash.world import STRAY, ServerProcess, World

WANTED = (ONE, TWO, BOTH, NOTHING)
NAMES = st.sampled_from(("main", "dev", "exp"))
PICKS = st.integers(0, 5)
"""Which of those that come into question, counted round."""
AHEAD = 12
"""How many points ahead a fault is laid at most."""
FAULTS = st.tuples(
    st.integers(0, AHEAD),
    st.sampled_from([kind for kind in FaultKind if kind is not FaultKind.STOPPED]),
)


@attrs.define
class Counts:
    """The events of a run of the machine; a run without events would test nothing."""

    steps: int = 0
    faults: int = 0
    crashes: int = 0
    did: Counter[str] = attrs.field(factory=Counter)
    ended: Counter[str] = attrs.field(factory=Counter)


@attrs.frozen(kw_only=True)
class CommitInput:
    """A request as it is sent, and sent again; and how to foretell what it will bind."""

    send: Callable[[ServerProcess], object]
    foretell: Callable[[], PredictedBindings]


@attrs.frozen(kw_only=True)
class Turn:
    """Whose turn it is, and what goes wrong in it: how many points ahead, and how."""

    life: int
    fault: tuple[int, FaultKind] | None


TURNS = st.builds(Turn, life=st.sampled_from((0, 1)), fault=st.none() | FAULTS)


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
            self.asked: list[CommitInput] = []
            self.history = History(world)

        @invariant()
        def every_promise_holds(self) -> None:
            counts.steps += 1
            assert broken_now(world) == []
            assert list(self.history.wrong()) == []

        @rule(wanted=st.sampled_from(WANTED), pick=PICKS, by=TURNS)
        def commit(self, wanted: str, pick: int, by: Turn) -> None:
            branches = sorted(world.branch_names())
            branch = branches[pick % len(branches)]
            request = world.request(self._next(), wanted, branch=branch)
            self._ask(
                by,
                "commit",
                lambda life: life.submit(request),
                lambda: self.history.foretell_deploy(wanted),
            )

        @rule(name=NAMES, source=NAMES, by=TURNS)
        def clone(self, name: str, source: str, by: Turn) -> None:
            plan_request = world.branch_request(self._next(), name)
            self._ask(
                by,
                "clone",
                lambda life: life.ledger.branches.clone(plan_request, source=source),
                lambda: self.history.foretell_clone(source),
            )

        @rule(name=NAMES, by=TURNS)
        def delete(self, name: str, by: Turn) -> None:
            plan_request = world.branch_request(self._next(), name)
            self._ask(
                by,
                "delete",
                lambda life: life.ledger.branches.delete(plan_request),
                lambda: self.history.foretell_deletion(name),
            )

        @rule(name=NAMES, by=TURNS)
        def undelete(self, name: str, by: Turn) -> None:
            plan_request = world.branch_request(self._next(), name)
            self._ask(
                by,
                "undelete",
                lambda life: life.ledger.branches.undelete(plan_request),
                lambda: self.history.foretell_return(name),
            )

        @rule(name=NAMES, pick=PICKS, by=TURNS)
        def roll_back(self, name: str, pick: int, by: Turn) -> None:
            there = world.rows(_HEADS, name=name)
            to_seq = 1 + pick % max([1, *(int(row["head_seq"]) for row in there)])
            plan_request = world.branch_request(self._next(), name)
            self._ask(
                by,
                "roll_back",
                lambda life: life.ledger.branches.roll_back(plan_request, to_seq=to_seq),
                lambda: self.history.foretell_rollback(name, to_seq),
            )

        @precondition(lambda self: self.asked)
        @rule(pick=PICKS, by=TURNS)
        def ask_again(self, pick: int, by: Turn) -> None:
            self._send(by, len(self.asked) - pick % len(self.asked), "again")

        @precondition(lambda self: self.asked)
        @rule(pick=PICKS, by=TURNS)
        def cancel(self, pick: int, by: Turn) -> None:
            commit_id = self._some_commit(pick)
            self._take(
                by, "cancel", lambda life: life.ledger.commits.cancel(commit_id, actor="ada")
            )

        @precondition(lambda self: self.asked)
        @rule(pick=PICKS, by=TURNS)
        def take_back(self, pick: int, by: Turn) -> None:
            commit_id = self._some_commit(pick)
            foretold = self.history.preview_revert(commit_id)
            self._take(by, "take_back", lambda life: life.recovery.roll_back(commit_id))
            self.history.ended(commit_id, foretold)

        @precondition(lambda self: self.asked)
        @rule(pick=PICKS, by=TURNS)
        def step(self, pick: int, by: Turn) -> None:
            commit_id = self._some_commit(pick)
            self._take(by, "step", lambda life: life.step(commit_id))

        @rule(by=TURNS)
        def look(self, by: Turn) -> None:
            self._take(by, "look", lambda life: life.recovery.look())

        @rule()
        def supervise(self) -> None:
            world.catch_up()

        @rule(seconds=st.sampled_from((1.0, 6.0, 31.0, 61.0, 3_700.0, 8 * 86_400.0)))
        def wait(self, seconds: float) -> None:
            world.wait(seconds)

        @rule(by=TURNS)
        def sweep(self, by: Turn) -> None:
            self._take(by, "sweep", lambda life: life.collector.sweep())

        @rule(by=TURNS)
        def audit(self, by: Turn) -> None:
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

        def _some_commit(self, pick: int) -> UUID:
            """Pick one that has not ended, if there is one."""
            unended = [row["commit_id"] for row in world.rows(_UNENDED)]
            some = unended or [world.commit_id(number + 1) for number in range(len(self.asked))]
            return some[pick % len(some)]

        def _next(self) -> int:
            return len(self.asked) + 1

        def _ask(
            self,
            by: Turn,
            what: str,
            send: Callable[[ServerProcess], object],
            foretell: Callable[[], PredictedBindings],
        ) -> None:
            self.asked.append(CommitInput(send=send, foretell=foretell))
            self._send(by, len(self.asked), what)

        def _send(self, by: Turn, number: int, what: str) -> None:
            asked = self.asked[number - 1]
            foretold = asked.foretell()
            self._take(by, what, asked.send)
            self.history.ended(world.commit_id(number), foretold)

        def _take(self, by: Turn, what: str, step: Callable[[ServerProcess], object]) -> None:
            """Take a step in one process; when it dies of it, another takes its place."""
            life = self.lives[by.life]
            life.fault_hook.hit = False
            if by.fault is not None:
                life.fault_hook.lay(*by.fault)
            try:
                if life.attempt(lambda: step(life)):
                    counts.did[what] += 1
            except Crash:
                counts.crashes += 1
                self.lives[by.life] = world.life()
            counts.faults += life.fault_hook.hit

    return Machine


_HEADS = "SELECT head_seq FROM branch WHERE name = :name AND state = 'active'"
_UNENDED = """
SELECT commit_id FROM deploy_commit WHERE finished_at IS NULL ORDER BY accepted_at, commit_id
"""


def run(world: World, counts: Counts, *, seeds: Iterable[int], examples: int, steps: int) -> None:
    """Let the machine run once for each seed; the first broken promise ends it with its story."""
    plan = settings(
        backend=SEEDS_ALONE,
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
