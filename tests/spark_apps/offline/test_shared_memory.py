"""Queries that run at once share the memory of their driver."""

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

from narthex_spark_apps.offline.columnar_lookups import SharedMemory

WITHIN_S = 30.0


def test_a_kernel_waits_until_its_states_fit_beside_those_of_other_queries() -> None:
    memory = SharedMemory(10)
    begun = {name: Event() for name in ("first", "small", "large")}
    go = {name: Event() for name in begun}

    def hold(name: str, size: int) -> None:
        with memory.held(size):
            begun[name].set()
            assert go[name].wait(WITHIN_S)

    with ThreadPoolExecutor(3) as threads:
        runs: list[Future[None]] = [threads.submit(hold, "first", 6)]
        assert begun["first"].wait(WITHIN_S)
        runs.append(threads.submit(hold, "large", 5))
        runs.append(threads.submit(hold, "small", 4))
        assert begun["small"].wait(WITHIN_S)
        assert not begun["large"].is_set()
        go["small"].set()
        go["first"].set()
        assert begun["large"].wait(WITHIN_S)
        go["large"].set()
        for run in runs:
            run.result(WITHIN_S)


def test_states_that_are_larger_than_the_memory_are_held_alone() -> None:
    memory = SharedMemory(10)

    with memory.held(11):
        pass
    with memory.held(10):
        pass
