"""The answers that readers get from the servers of hosts, and which of them are stale."""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from narthex._processes import ProcessGroup
from tests.chaos.verdict import quantiles
from tests.hosts.platform import TOKEN, WORKERS, Platform, reader_command


@attrs.frozen
class Answer:
    """An answer of the server of one host; without a count it was none.

    Attributes:
        asked: When the question was sent, seconds of the machine's monotonic clock.
    """

    host: str
    asked: float
    answered: float
    count: int | None


@attrs.define
class Readers:
    """Programs that ask the servers of hosts, each on its own host."""

    platform: Platform
    answers: list[Answer] = attrs.field(factory=list)
    _children: dict[str, ProcessGroup] = attrs.field(factory=dict)

    def start(self, host: str) -> None:
        """Ask the server of a host from now on, which nothing asks at the moment."""
        machine = self.platform.hosts[host]
        child = ProcessGroup.start(
            machine.command(*reader_command(self.platform.url(host))),
            # The host has a working directory of its own.
            environment={**os.environ, "NARTHEX_TOKEN": TOKEN, "PYTHONPATH": str(Path.cwd())},
            has_pipes=True,
        )
        self._children[host] = child
        threading.Thread(target=self._collect, args=(host, child), daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        for child in self._children.values():
            child.kill()

    def since(self, instant: float) -> list[Answer]:
        """Return the answers to questions that were sent after an instant."""
        return [answer for answer in tuple(self.answers) if answer.asked > instant]

    def _collect(self, host: str, child: ProcessGroup) -> None:
        for line in child.popen.stdout or ():
            found = json.loads(line)
            self.answers.append(
                Answer(host, found["asked"], found["answered"], count=found["count"])
            )


@contextmanager
def reading(platform: Platform) -> Iterator[Readers]:
    """Ask the servers of both workers until the block ends."""
    readers = Readers(platform)
    for host in WORKERS:
        readers.start(host)
    try:
        yield readers
    finally:
        readers.stop()


def stale(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers with fewer rows than an answer that had ended before they were asked.

    Rows of the watched card are only added, so such an answer is older than what a reader has seen.
    """
    given = [answer for answer in answers if answer.count is not None]
    ended = sorted((answer.answered, answer.count or 0) for answer in given)
    found: list[Answer] = []
    known, position = 0, 0
    for answer in sorted(given, key=lambda a: a.asked):
        while position < len(ended) and ended[position][0] < answer.asked:
            known = max(known, ended[position][1])
            position += 1
        if (answer.count or 0) < known:
            found.append(answer)
    return found


def hosts_of(answers: Sequence[Answer]) -> set[str]:
    """Return the hosts whose servers gave one of these answers, with a row at least."""
    return {answer.host for answer in answers if answer.count}


def count_by_host(answers: Sequence[Answer], *, is_answered: bool) -> dict[str, int]:
    """Return how many questions each worker's server answered, or did not answer."""
    chosen = [a for a in answers if (a.count is not None) is is_answered]
    return {host: sum(a.host == host for a in chosen) for host in WORKERS}


def answer_times(answers: Sequence[Answer], host: str) -> dict[str, float]:
    """Return how many questions a host's server was asked and answered, and the times, ms."""
    of_host = [answer for answer in answers if answer.host == host]
    times = [(a.answered - a.asked) * 1e3 for a in of_host if a.count is not None]
    if not times:
        return {"asked": len(of_host), "answered": 0}
    middle, high = quantiles(times)
    figures = {"p50_ms": round(middle, 1), "p95_ms": round(high, 1)}
    return {"asked": len(of_host), "answered": len(times), **figures}
