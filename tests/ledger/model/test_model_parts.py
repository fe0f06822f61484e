"""Three more small machines, explored exhaustively: needs, leases, promotion.

The first model has one asset without needs, and no clocks. These three add what it leaves out, each
with just enough of the rest; each guard is left out once, and the promise that it keeps breaks.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeVar

import pytest

_State = TypeVar("_State", bound=Hashable)


def explore(
    start: _State,
    steps: Callable[[_State, str], Iterator[_State]],
    wrong: Callable[[_State], str],
    *,
    without: str = "",
) -> tuple[int, str]:
    """Visit every state, breadth first; return how many, and the first broken promise."""
    seen, ahead = {start}, deque([start])
    while ahead:
        state = ahead.popleft()
        broken = wrong(state)
        if broken:
            return len(seen), broken
        for after in steps(state, without):
            if after not in seen:
                seen.add(after)
                ahead.append(after)
    return len(seen), ""


# Needs: a feed needs a log. One commit binds both; another one, on another branch, the log.

LOG, FEED = 0, 1
WANTED = ((LOG, FEED), (LOG,))
TAKEN = {"absent": "planned", "retiring": "live"}


class Needs(NamedTuple):
    commits: tuple[str, ...] = ("queued", "queued")
    assets: tuple[str, ...] = ("absent", "absent")
    exists: frozenset[int] = frozenset()
    calls: frozenset[tuple[str, int]] = frozenset()
    pins: frozenset[int] = frozenset()

    def commit(self, number: int, state: str) -> "Needs":
        changed = list(self.commits)
        changed[number] = state
        return self._replace(commits=tuple(changed))

    def asset(self, number: int, state: str) -> "Needs":
        changed = list(self.assets)
        changed[number] = state
        return self._replace(assets=tuple(changed))

    def pinned(self, asset: int) -> bool:
        return any(asset in WANTED[commit] for commit in self.pins)


def needs_steps(s: Needs, without: str) -> Iterator[Needs]:
    for number, state in enumerate(s.commits):
        yield from _needs_commit(s, number, state, without)
    for number, state in enumerate(s.assets):
        yield from _needs_asset(s, number, state, without)
    for what, number in s.calls:
        exists = s.exists | {number} if what == "create" else s.exists - {number}
        yield s._replace(exists=exists, calls=s.calls - {(what, number)})
        yield s._replace(calls=s.calls - {(what, number)})


def _needs_commit(s: Needs, number: int, state: str, without: str) -> Iterator[Needs]:
    wanted = WANTED[number]
    if state == "queued" and all(s.assets[a] not in {"destroying", "destroyed"} for a in wanted):
        taken = s.commit(number, "applying")._replace(pins=s.pins | {number})
        for asset in wanted:
            taken = taken.asset(asset, TAKEN.get(taken.assets[asset], taken.assets[asset]))
        yield taken
    if state == "applying":
        yield from _create(s, wanted, without)
        if all(s.assets[a] == "live" for a in wanted):
            yield s.commit(number, "committed")
        yield _let_go(s.commit(number, "ended"), number, aborted=True)
    if state == "committed":
        yield _let_go(s.commit(number, "ended"), number, aborted=False)


def _create(s: Needs, wanted: tuple[int, ...], without: str) -> Iterator[Needs]:
    for asset in wanted:
        first = asset == LOG or s.assets[LOG] == "live" or without == "needs first"
        if s.assets[asset] in {"planned", "creating"} and first:
            yield s.asset(asset, "creating")._replace(calls=s.calls | {("create", asset)})
        if s.assets[asset] == "creating" and asset in s.exists:
            yield s.asset(asset, "live")


def _let_go(s: Needs, number: int, *, aborted: bool) -> Needs:
    after = s._replace(pins=s.pins - {number})
    for asset in WANTED[number]:
        if not after.pinned(asset):
            told = {"planned": "destroyed", "creating": "destroying", "live": "retiring"}
            state = after.assets[asset]
            after = after.asset(
                asset, told.get(state, state) if aborted or state == "live" else state
            )
    return after


def _needs_asset(s: Needs, number: int, state: str, without: str) -> Iterator[Needs]:
    dependant = number == LOG and s.assets[FEED] not in {"absent", "destroyed"}
    may_go = not dependant or without == "dependants before needs"
    if state == "retiring" and not s.pinned(number) and may_go:
        yield s.asset(number, "destroying")
    if state == "destroying":
        # An asset that aborted while its creation was in flight may be needed by another asset.
        if may_go:
            yield s._replace(calls=s.calls | {("destroy", number)})
        quiet = ("create", number) not in s.calls
        if quiet and number not in s.exists and (not dependant or without):
            yield s.asset(number, "destroyed")


def needs_wrong(s: Needs) -> str:
    if FEED in s.exists and LOG not in s.exists:
        return "a feed exists without its log"
    for number, state in enumerate(s.commits):
        if state == "committed" and any(s.assets[a] != "live" for a in WANTED[number]):
            return "a committed asset is not live"
        if state == "committed" and any(a not in s.exists for a in WANTED[number]):
            return "a committed asset does not exist"
    return ""


# Leases: two processes want one slot and write to one sink, whose writes may land late.


class Leases(NamedTuple):
    owner: int = -1
    epoch: int = 0
    expired: bool = False
    believes: tuple[int, ...] = (0, 0)
    sink: int = 0
    written_by: int = 0
    flying: frozenset[tuple[int, int]] = frozenset()
    went_back: bool = False
    two_at_once: bool = False


EPOCHS = 3


def leases_steps(s: Leases, without: str) -> Iterator[Leases]:
    if s.owner >= 0 and not s.expired:
        yield s._replace(expired=True)
    for me in (0, 1):
        free = s.owner < 0 or s.expired
        if free and s.epoch < EPOCHS:
            epoch = s.epoch if without == "each claim a new epoch" and s.epoch else s.epoch + 1
            yield _believe(s, me, epoch)._replace(owner=me, epoch=epoch, expired=False)
        holds = s.owner == me and s.epoch == s.believes[me]
        if s.believes[me] and not s.expired and (holds or without == "renew by epoch"):
            # A renewal that is not scoped to the epoch returns the slot to its previous holder.
            yield s._replace(owner=me, two_at_once=s.two_at_once or not holds)
        if s.believes[me]:
            yield s._replace(flying=s.flying | {(me, s.believes[me])})
            yield _believe(s, me, 0)
    for me, epoch in s.flying:
        gone = s._replace(flying=s.flying - {(me, epoch)})
        yield gone
        if epoch >= s.sink or without == "the sink checks epochs":
            yield gone._replace(
                sink=max(epoch, s.sink),
                written_by=me,
                went_back=s.went_back or epoch < s.sink or (epoch == s.sink and me != s.written_by),
            )


def _believe(s: Leases, me: int, epoch: int) -> Leases:
    changed = list(s.believes)
    changed[me] = epoch
    return s._replace(believes=tuple(changed))


def leases_wrong(s: Leases) -> str:
    if s.went_back:
        return "a sink took a write of an older owner"
    if s.two_at_once:
        return "two hold one slot"
    return ""


# Promotion: two commits of a branch; a job that is restarted, moved, and reports late.


class Promotion(NamedTuple):
    head: int = 0
    serving: int = 0
    pending: frozenset[int] = frozenset()
    generation: int = 1
    epoch: int = 1
    ready_at: tuple[int, int] = (0, 0)
    reports: frozenset[tuple[int, int]] = frozenset()
    evidence: frozenset[tuple[int, int, int]] = frozenset()
    flaw: str = ""


MOST = 3


def promotion_steps(s: Promotion, without: str) -> Iterator[Promotion]:
    if s.head < 2:
        pending = s.pending if without == "the later supersedes" else frozenset[int]()
        yield s._replace(head=s.head + 1, pending=pending | {s.head + 1})
    if s.generation < MOST:
        yield s._replace(generation=s.generation + 1)
    if s.epoch < MOST:
        yield s._replace(epoch=s.epoch + 1)
    # A report of what was true when it was sent; it may arrive when it no longer is.
    yield s._replace(reports=s.reports | {(s.generation, s.epoch)})
    for generation, epoch in s.reports:
        if epoch == s.epoch or without == "reports have the epoch":
            yield s._replace(ready_at=(generation, epoch))
    yield from _flip(s, without)


def _flip(s: Promotion, without: str) -> Iterator[Promotion]:
    is_ready = (s.ready_at[0] == s.generation or without == "of this generation") and (
        s.ready_at[1] == s.epoch or without == "reports have the epoch"
    )
    if is_ready and s.ready_at != (0, 0):
        for commit in s.pending:
            yield s._replace(evidence=s.evidence | {(commit, *s.ready_at)})
    for commit, generation, epoch in s.evidence:
        fresh = (generation, epoch) == s.ready_at and is_ready
        if commit in s.pending and (fresh or without == "evidence is fresh"):
            yield _promote(s, commit, (generation, epoch))


def _promote(s: Promotion, commit: int, seen: tuple[int, int]) -> Promotion:
    flaw = ""
    if seen != (s.generation, s.epoch):
        flaw = "readers flipped to a job that was not ready"
    if commit < s.serving:
        flaw = "readers went back"
    return s._replace(serving=commit, pending=s.pending - {commit}, flaw=s.flaw or flaw)


def promotion_wrong(s: Promotion) -> str:
    return s.flaw


def test_no_state_of_needs_breaks_a_promise() -> None:
    states, broken = explore(Needs(), needs_steps, needs_wrong)

    assert broken == ""
    assert states > 200


@pytest.mark.parametrize("guard", ["needs first", "dependants before needs"])
def test_each_guard_of_needs_is_needed(guard: str) -> None:
    assert explore(Needs(), needs_steps, needs_wrong, without=guard)[1]


def test_no_state_of_leases_breaks_a_promise() -> None:
    states, broken = explore(Leases(), leases_steps, leases_wrong)

    assert broken == ""
    assert states > 300


@pytest.mark.parametrize(
    "guard", ["each claim a new epoch", "renew by epoch", "the sink checks epochs"]
)
def test_each_guard_of_leases_is_needed(guard: str) -> None:
    assert explore(Leases(), leases_steps, leases_wrong, without=guard)[1]


def test_no_state_of_promotion_breaks_a_promise() -> None:
    states, broken = explore(Promotion(), promotion_steps, promotion_wrong)

    assert broken == ""
    assert states > 300


@pytest.mark.parametrize(
    "guard",
    ["the later supersedes", "reports have the epoch", "of this generation", "evidence is fresh"],
)
def test_each_guard_of_promotion_is_needed(guard: str) -> None:
    assert explore(Promotion(), promotion_steps, promotion_wrong, without=guard)[1]
