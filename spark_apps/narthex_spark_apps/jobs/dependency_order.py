"""Do things that wait for each other, several at a time."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

_R = TypeVar("_R")


def in_dependency_order(
    before: Mapping[int, Collection[int]], work: Callable[[int], _R], *, at_once: int
) -> Iterator[_R]:
    """Do each thing when all that stand before it are done; give results as they come.

    Of things that wait for each other in a ring the first one begins. When one fails nothing new
    begins, and its error is raised when those that run have ended.

    Args:
        before: For each thing, in the order wished for, what must be done before it.
        work: Does one; called in threads.
        at_once: How many are done at the same time.
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
