"""Scenarios that happen to hosts under load, and the readers that watch meanwhile."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import attrs

from narthex._processes import ProcessGroup
from tests.chaos.load import SentRows
from tests.chaos.plant import Installation, wait_until
from tests.hosts.platform import SECOND, TOKEN, WORKERS, Platform, reader_command

QUIET_S = 5.0
"""How long a scenario waits before and after what it does."""
CUT_S = 25.0
"""Longer than a lease of slots: other hosts take them meanwhile."""
SLOW_S = 20.0
BACK_WITHIN_S = 240.0

Tell = Callable[[str], None]


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
        """Ask the server of a host from now on."""
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

    def _collect(self, host: str, child: ProcessGroup) -> None:
        for line in child.popen.stdout or ():
            found = json.loads(line)
            self.answers.append(
                Answer(host, found["asked"], found["answered"], count=found["count"])
            )


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


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of one scenario.

    Attributes:
        visible_s: How long after the fault the first row that was sent after it was visible.
        answered: How many questions each host's server answered from the fault to the end.
        unanswered: How many it did not answer.
    """

    name: str
    visible_s: float | None
    answered: dict[str, int]
    unanswered: dict[str, int]
    note: str = ""


class Scenario(Protocol):
    """Does something to hosts; returns what to report about it."""

    def __call__(self, platform: Platform, installation: Installation, /) -> str: ...


def move_slots(platform: Platform, _installation: Installation) -> str:
    """Stop the second supervisor, which returns its slots, and start it again."""
    platform.stop_supervisor(SECOND, within_s=60.0)
    time.sleep(QUIET_S)
    platform.start_supervisor(SECOND)
    return "the slots of `second` moved to `first`"


def cut_link(platform: Platform, _installation: Installation) -> str:
    """Cut the second host off for longer than its leases last."""
    host = platform.hosts[SECOND]
    host.cut()
    time.sleep(CUT_S)
    host.join()
    return f"`second` was cut off for {CUT_S:.0f} s"


def slow_link(platform: Platform, _installation: Installation) -> str:
    """Slow the second host's cable."""
    host = platform.hosts[SECOND]
    how = host.slow()
    time.sleep(SLOW_S)
    host.unslow()
    return f"the cable of `second` was slowed ({how}) for {SLOW_S:.0f} s"


def lose_host(platform: Platform, _installation: Installation) -> str:
    """Kill the second host with its disk; bring it back empty once its leases have ended."""
    killed = platform.lose(SECOND)
    time.sleep(CUT_S)
    platform.start_worker(SECOND)
    return f"`second` lost {killed} processes and its disk"


SCENARIOS: dict[str, Scenario] = {
    "move-slots": move_slots,
    "slow-link": slow_link,
    "cut-link": cut_link,
    "lose-host": lose_host,
}


def play(
    name: str,
    platform: Platform,
    installation: Installation,
    *,
    readers: Readers,
    sent: SentRows,
    tell: Tell,
) -> Outcome:
    """Run one scenario, and wait until rows sent after it are visible again."""
    time.sleep(QUIET_S)
    began, first = time.monotonic(), len(sent.probes) + 1
    note = SCENARIOS[name](platform, installation)
    acted = len(sent.probes) + 1
    wait_until(
        lambda: any(number in sent.visible for number in range(acted, len(sent.probes) + 1)),
        within_s=BACK_WITHIN_S,
        what=f"new rows are visible after {name}",
    )
    time.sleep(QUIET_S)
    shown = next((sent.visible[n] for n in range(first, acted + 1) if n in sent.visible), None)
    since = [answer for answer in tuple(readers.answers) if answer.asked > began]
    outcome = Outcome(
        name=name,
        visible_s=None if shown is None else shown - began,
        answered=_count(since, is_answered=True),
        unanswered=_count(since, is_answered=False),
        note=note,
    )
    tell(f"{name}: {note}; {outcome.visible_s} s to a new row; answered {outcome.answered}")
    return outcome


def _count(answers: Sequence[Answer], *, is_answered: bool) -> dict[str, int]:
    chosen = [a for a in answers if (a.count is not None) is is_answered]
    return {host: sum(a.host == host for a in chosen) for host in WORKERS}


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
