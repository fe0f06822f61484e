"""Instances of runners in memory, and a clock."""

import queue
from collections.abc import Iterator

import attrs

from narthex_spark_apps.supervision.runner_messages import (
    RunnerMessage,
    parse_desired,
    render_report,
)


@attrs.define(eq=False)
class MemoryInstance:
    """An instance without a process: a test reads what it is sent, and sends its messages."""

    sent: list[str] = attrs.field(factory=list)
    is_running: bool = True
    ending: str = ""
    killed: int = 0
    is_gone: bool = True
    _messages: "queue.SimpleQueue[str | None]" = attrs.field(factory=queue.SimpleQueue)

    def send(self, line: str) -> None:
        self.sent.append(line)

    def lines(self) -> Iterator[str]:
        while (line := self._messages.get()) is not None:
            yield line

    def end(self, *, within_s: float) -> bool:
        self.kill()
        return within_s > 0

    def kill(self) -> None:
        self.killed += 1
        self.die("killed")

    def die(self, how: str) -> None:
        self.is_running = False
        self.ending = self.ending or how
        self._messages.put(None)

    def say(self, message: RunnerMessage) -> None:
        self._messages.put(render_report(message))

    def say_line(self, line: str) -> None:
        self._messages.put(line)

    @property
    def turns(self) -> list[tuple[int, list[int]]]:
        sets = (parse_desired(line) for line in self.sent if "assign" in line)
        return [(one.turn, [a.asset.asset_id for a in one.assignments]) for one in sets]


@attrs.define
class Instances:
    """Starts instances, and remembers them."""

    all: list[MemoryInstance] = attrs.field(factory=list)

    def start(self) -> MemoryInstance:
        self.all.append(MemoryInstance())
        return self.all[-1]


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s
