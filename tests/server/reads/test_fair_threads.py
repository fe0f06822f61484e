"""Threads that callers share: turns, bounds of waiting, deadlines."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from narthex_server.errors import DeadlineExceeded, TooManyRequests
from narthex_server.reads.fair_threads import FairThreads

THREADS, EACH, WAITING = 3, 2, 8


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    shared = FairThreads("test", THREADS, most_waiting=WAITING, most_each=EACH)
    yield shared
    shared.close()


class Work:
    """Work that runs until it is released, and records its order."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.began: list[str] = []

    def of(self, caller: str) -> Callable[[], str]:
        def run() -> str:
            self.began.append(caller)
            assert self.released.wait(30.0)
            return caller

        return run


async def _settled(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.001)


def test_one_caller_leaves_a_thread_to_others(threads: FairThreads) -> None:
    work = Work()

    async def scenario() -> list[str]:
        busy = [
            asyncio.ensure_future(threads.run(work.of("busy"), caller="busy")) for _ in range(4)
        ]
        await _settled(lambda: work.began == ["busy"] * EACH)
        other = asyncio.ensure_future(threads.run(work.of("other"), caller="other"))
        await _settled(lambda: "other" in work.began)
        work.released.set()
        return await asyncio.gather(*busy, other)

    assert asyncio.run(scenario()) == [*["busy"] * 4, "other"]


def test_callers_take_turns_for_a_free_thread(threads: FairThreads) -> None:
    first, rest = Work(), Work()
    rest.released.set()

    async def scenario() -> None:
        held = [
            asyncio.ensure_future(threads.run(first.of(name), caller=name))
            for name in ("x", "y", "z")
        ]
        await _settled(lambda: len(first.began) == THREADS)
        waiting = [
            asyncio.ensure_future(threads.run(rest.of(name), caller=name))
            for name in ("a", "a", "a", "b", "b", "c")
        ]
        await asyncio.sleep(0)
        first.released.set()
        await asyncio.gather(*held, *waiting)

    asyncio.run(scenario())

    assert sorted(rest.began[:THREADS]) == ["a", "b", "c"]


def test_one_caller_has_half_of_the_places_to_wait(threads: FairThreads) -> None:
    work = Work()

    async def scenario() -> None:
        held = [
            asyncio.ensure_future(threads.run(work.of("busy"), caller="busy"))
            for _ in range(EACH + WAITING // 2)
        ]
        await _settled(lambda: len(work.began) == EACH)
        with pytest.raises(TooManyRequests):
            await threads.run(work.of("busy"), caller="busy")
        others = [
            asyncio.ensure_future(threads.run(work.of("other"), caller="other"))
            for _ in range(1 + WAITING // 2)
        ]
        await _settled(lambda: work.began.count("other") == 1)
        with pytest.raises(TooManyRequests):
            await threads.run(work.of("third"), caller="third")
        work.released.set()
        await asyncio.gather(*held, *others)

    asyncio.run(scenario())


def test_work_that_waits_ends_at_its_deadline(threads: FairThreads) -> None:
    work = Work()

    async def scenario() -> None:
        held = [
            asyncio.ensure_future(threads.run(work.of(name), caller=name))
            for name in ("x", "y", "z")
        ]
        await _settled(lambda: len(work.began) == THREADS)
        with pytest.raises(DeadlineExceeded):
            await threads.run(work.of("late"), caller="late", deadline=time.monotonic() + 0.02)
        work.released.set()
        await asyncio.gather(*held)

    asyncio.run(scenario())

    assert "late" not in work.began


def test_a_cancelled_wait_frees_its_place_and_its_thread(threads: FairThreads) -> None:
    work = Work()

    async def scenario() -> list[str]:
        held = [
            asyncio.ensure_future(threads.run(work.of(name), caller=name))
            for name in ("x", "y", "z")
        ]
        await _settled(lambda: len(work.began) == THREADS)
        given_up = [
            asyncio.ensure_future(threads.run(work.of("a"), caller="a"))
            for _ in range(WAITING // 2)
        ]
        await asyncio.sleep(0)
        for each in given_up:
            each.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError)
            for each in await asyncio.gather(*given_up, return_exceptions=True)
        )
        work.released.set()
        await asyncio.gather(*held)
        return await asyncio.gather(
            *(threads.run(work.of(name), caller=name) for name in ("a", "a", "b", "c"))
        )

    assert asyncio.run(scenario()) == ["a", "a", "b", "c"]


def test_work_that_fails_frees_its_thread(threads: FairThreads) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def scenario() -> None:
        for _ in range(THREADS + WAITING):
            with pytest.raises(ZeroDivisionError):
                await threads.run(fail, caller="a")

    asyncio.run(scenario())
