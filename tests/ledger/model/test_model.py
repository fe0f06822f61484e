"""The protocol as a small machine, all of whose states are visited.

Three commits on three branches want one fingerprint; it may have three incarnations. Calls to the
store may take effect at any later time, or never. The ledger's transactions are atomic steps:
that they are is what the races on a real server show.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pytest

COMMITS = range(3)
INCARNATIONS = range(3)
RETAINED = frozenset({"planned", "creating", "live", "retiring"})
RELEASED = {"planned": "destroyed", "creating": "destroying", "live": "retiring"}

Call = tuple[str, int]
Step = tuple[str, "World"]


class World(NamedTuple):
    """The ledger's commits, assets and pins; the existing assets; the calls in flight."""

    commits: tuple[tuple[str, int], ...]
    assets: tuple[str, ...]
    pins: frozenset[tuple[int, int]]
    exists: frozenset[int]
    calls: frozenset[Call]
    judged: frozenset[int]

    def commit(self, commit: int, state: str, incarnation: int) -> "World":
        changed = list(self.commits)
        changed[commit] = (state, incarnation)
        return self._replace(commits=tuple(changed))

    def asset(self, incarnation: int, state: str) -> "World":
        changed = list(self.assets)
        changed[incarnation] = state
        return self._replace(assets=tuple(changed))

    def call(self, what: str, incarnation: int) -> "World":
        return self._replace(calls=self.calls | {(what, incarnation)})

    def pinned(self, incarnation: int) -> bool:
        return any(held == incarnation for _, held in self.pins)


START = World(
    commits=tuple(("queued", -1) for _ in COMMITS),
    assets=tuple("absent" for _ in INCARNATIONS),
    pins=frozenset(),
    exists=frozenset(),
    calls=frozenset(),
    judged=frozenset(),
)


def plan(world: World, commit: int, without: str) -> Iterator[Step]:
    shareable = RETAINED | ({"destroying"} if without == "destroying is final" else set())
    retained = [i for i in INCARNATIONS if world.assets[i] in shareable]
    if retained:
        found = retained[0]
        state = world.assets[found]
        after = world.asset(found, "live" if state in {"retiring", "destroying"} else state)
        yield f"share {found}", _take(after, commit, found)
        return
    free = [i for i in INCARNATIONS if world.assets[i] == "absent"]
    if without == "names are used once":
        free = [0] if world.assets[0] in {"absent", "destroyed"} else []
    if free:
        yield f"reserve {free[0]}", _take(world.asset(free[0], "planned"), commit, free[0])


def _take(world: World, commit: int, incarnation: int) -> World:
    taken = world.commit(commit, "applying", incarnation)
    return taken._replace(pins=world.pins | {(commit, incarnation)})


def create(world: World, commit: int, incarnation: int, without: str) -> Iterator[Step]:
    state = world.assets[incarnation]
    there = incarnation in world.exists
    if state in {"planned", "creating"}:
        written = world if without == "intent before call" else world.asset(incarnation, "creating")
        yield "intend", written.call("create", incarnation)
    unwritten = without == "intent before call" and state == "planned"
    probed = there or without == "probe before done"
    if (state == "creating" and probed) or (unwritten and there):
        yield "done", world.asset(incarnation, "live")
    if state == "live":
        yield "ready", world.commit(commit, "ready", incarnation)


def end(world: World, commit: int, without: str) -> Iterator[Step]:
    state, incarnation = world.commits[commit]
    if state == "ready":
        sealed = world.commit(commit, "committed", incarnation)
        yield "commit", sealed
        if without == "no undo on an unknown commit" and world.assets[incarnation] == "live":
            yield "commit, then undo", sealed.asset(incarnation, "destroying")
    if state in {"applying", "ready"}:
        yield "abort", world.commit(commit, "aborting", incarnation)
    if state == "aborting":
        yield from unref(world, commit, incarnation, without)
    if state == "committed":
        dropped = world._replace(pins=world.pins - {(commit, incarnation)})
        if not dropped.pinned(incarnation) and world.assets[incarnation] == "live":
            dropped = dropped.asset(incarnation, "retiring")
        yield "replace", dropped.commit(commit, "replaced", incarnation)


def unref(world: World, commit: int, incarnation: int, without: str) -> Iterator[Step]:
    if (commit, incarnation) in world.pins:
        after = world._replace(pins=world.pins - {(commit, incarnation)})
        if not after.pinned(incarnation) or without == "abort respects pins":
            state = world.assets[incarnation]
            after = after.asset(incarnation, RELEASED.get(state, state))
        yield "let go", after
    elif world.assets[incarnation] == "destroyed" or world.pinned(incarnation):
        yield "aborted", world.commit(commit, "aborted", incarnation)


def collect(world: World, incarnation: int, without: str) -> Iterator[Step]:
    state = world.assets[incarnation]
    if without == "lock, then check":
        if state == "retiring" and not world.pinned(incarnation):
            yield "judge", world._replace(judged=world.judged | {incarnation})
        if state in {"retiring", "live"} and incarnation in world.judged:
            forgot = world._replace(judged=world.judged - {incarnation})
            yield "mark_obsolete", forgot.asset(incarnation, "destroying")
    elif state == "retiring" and not world.pinned(incarnation):
        yield "mark_obsolete", world.asset(incarnation, "destroying")
    if state == "destroying":
        yield "destroy", world.call("destroy", incarnation)
        creating = ("create", incarnation) in world.calls
        if creating:
            yield "quiesce", world._replace(calls=world.calls - {("create", incarnation)})
        quiet = not creating or without == "quiesce before destroyed"
        if quiet and incarnation not in world.exists:
            yield "destroyed", world.asset(incarnation, "destroyed")


def land(world: World, what: str, incarnation: int) -> Iterator[Step]:
    exists = world.exists | {incarnation} if what == "create" else world.exists - {incarnation}
    if exists != world.exists:
        yield f"{what} lands", world._replace(exists=exists)
    yield f"{what} is lost", world._replace(calls=world.calls - {(what, incarnation)})


def steps(world: World, without: str) -> Iterator[Step]:
    for commit in COMMITS:
        state, incarnation = world.commits[commit]
        if state == "queued":
            yield from plan(world, commit, without)
        if state == "applying":
            yield from create(world, commit, incarnation, without)
        yield from end(world, commit, without)
    for incarnation in INCARNATIONS:
        yield from collect(world, incarnation, without)
    for what, incarnation in world.calls:
        yield from land(world, what, incarnation)


def wrong(world: World) -> str:
    """Name the promise that a state breaks, or nothing."""
    if sum(state in RETAINED for state in world.assets) > 1:
        return "a fingerprint is in the bank twice"
    told = (_wrong_commit(world, *commit) for commit in world.commits)
    found = (_wrong_asset(world, incarnation) for incarnation in INCARNATIONS)
    return next(filter(None, (*told, *found)), "")


def _wrong_commit(world: World, state: str, incarnation: int) -> str:
    if state in {"ready", "committed"} and world.assets[incarnation] != "live":
        return f"a {state} asset is not live"
    if state == "committed" and incarnation not in world.exists:
        return "a committed asset does not exist"
    return ""


def _wrong_asset(world: World, incarnation: int) -> str:
    state, there = world.assets[incarnation], incarnation in world.exists
    if state == "destroyed" and there:
        return "a destroyed asset exists"
    if state == "destroying" and world.pinned(incarnation):
        return "a pinned asset is being destroyed"
    if state in {"absent", "planned"} and there:
        return "an asset exists before its intent"
    return ""


def explore(without: str = "") -> tuple[int, str]:
    """Visit every state, breadth first; return how many, and the first broken promise."""
    seen, ahead = {START}, deque([START])
    while ahead:
        world = ahead.popleft()
        broken = wrong(world)
        following = [after for _, after in steps(world, without)]
        if not broken and not following and world.exists and not world.pins:
            broken = "something is left at the end"
        if broken:
            return len(seen), broken
        for after in following:
            if after not in seen:
                seen.add(after)
                ahead.append(after)
    return len(seen), ""


def test_no_state_of_the_protocol_breaks_a_promise() -> None:
    states, broken = explore()

    assert broken == ""
    assert states > 100_000


@pytest.mark.parametrize(
    ("guard", "story"),
    [
        ("lock, then check", "a pinned asset is being destroyed"),
        ("destroying is final", "exist"),
        ("names are used once", "exist"),
        ("quiesce before destroyed", "a destroyed asset exists"),
        ("intent before call", "an asset exists before its intent"),
        ("probe before done", "a committed asset does not exist"),
        ("abort respects pins", "not live"),
        ("no undo on an unknown commit", "not live"),
    ],
)
def test_each_guard_is_needed(guard: str, story: str) -> None:
    _, broken = explore(without=guard)

    assert broken
    assert story in broken or "pinned asset is being destroyed" in broken
