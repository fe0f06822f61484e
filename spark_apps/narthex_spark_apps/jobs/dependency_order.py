"""Run tasks that depend on each other, several at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

_R = TypeVar("_R")


def in_dependency_order(
    before: Mapping[int, Collection[int]], work: Callable[[int], _R], *, at_once: int
) -> Iterator[_R]:
    """Run each task when its dependencies are done; yield the results as they arrive.

    In a cycle of tasks the first one starts. When a task fails, no new task starts, and its error
    is raised once the running tasks have ended.

    Args:
        before: For each task, in the preferred order, the tasks that must be done before it.
        work: Runs one task; called in threads.
        at_once: How many tasks run at the same time.
    """
    waiting = list(before)
    running: dict[Future[_R], int] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="each") as threads:
        while waiting or running:
            unfinished = {*waiting, *running.values()}
            ready = [thing for thing in waiting if not unfinished & set(before[thing])]
            if not ready and not running:
                ready = waiting[:1]
            for thing in ready[: at_once - len(running)]:
                running[threads.submit(work, thing)] = thing
                waiting.remove(thing)
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                del running[future]
                yield future.result()
