"""Batches: datasets and featuresets of one branch that one task audits or profiles, in one process.

A process costs seconds before it reads a row, and so does a task; an audit or a profile of few rows
takes a tenth of a second.
"""

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from narthex._base import Json

MAIN: Final = "main"
"""The branch that labels do not name."""

Entry = Mapping[str, str]
"""A dataset or a featureset: its `branch`, and its name as `dataset` or as `featureset`."""

MOST_TASKS: Final = 20
"""How many tasks there are, unless batches would be too long or there are more branches."""

LONGEST: Final = 50
"""The greatest number of entries in a batch."""

EACH_WITHIN_S: Final = 600.0
"""How long a process may take for one name; then it is stopped."""

BATCH_WITHIN_S: Final = 3000.0
"""How long a batch may take; names that are left over have failed."""

OVER: Final = "the time of its batch was over"


def in_batches(
    entries: Sequence[Entry], *, most: int = MOST_TASKS, longest: int = LONGEST
) -> list[list[Entry]]:
    """Divide entries into batches of one branch each, in their order.

    Up to `most` entries have a batch each. More have at most `most` batches, as far as no batch has
    more than `longest` entries and each branch has one of its own.
    """
    branches: dict[str, list[Entry]] = {}
    for entry in entries:
        branches.setdefault(entry["branch"], []).append(entry)
    counts = [len(of_branch) for of_branch in branches.values()]
    length = 1
    while length < longest and sum(-(-count // length) for count in counts) > most:
        length += 1
    return [batch for of_branch in branches.values() for batch in _divided(of_branch, length)]


def _divided(entries: Sequence[Entry], longest: int) -> Iterator[list[Entry]]:
    """Yield as few batches as possible, none of which is longer by two than another."""
    count = -(-len(entries) // longest)
    for number in range(count):
        first, end = (len(entries) * at // count for at in (number, number + 1))
        yield list(entries[first:end])


def name_of(entry: Entry) -> str:
    """Return the name of a dataset or a featureset."""
    return entry["dataset"] if "dataset" in entry else entry["featureset"]


def label_of(batch: Sequence[Entry]) -> str:
    """Return what people see of a batch: its first name, how many more there are, the branch."""
    more = f" and {len(batch) - 1} more" if batch[1:] else ""
    branch = batch[0]["branch"]
    return f"{name_of(batch[0])}{more}" + ("" if branch == MAIN else f" on {branch}")


@attrs.frozen(kw_only=True)
class _EndedProcess:
    """A process that has ended: its whole lines on stdout, its stderr and its status."""

    lines: list[dict[str, Json]]
    errors: str
    status: int

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.status < 0:
            return f"the process was killed by signal {-self.status}"
        return f"the process ended with status {self.status}"


@attrs.define(kw_only=True)
class CommandResults:
    """The results of a command that takes names, and prints lines of JSON about each.

    Attributes:
        results: The lines about each name for which the command did its work.
        errors: Why it could not, by name.
    """

    results: dict[str, list[dict[str, Json]]] = attrs.field(factory=dict)
    errors: dict[str, str] = attrs.field(factory=dict)

    def add(self, line: dict[str, Json]) -> str:
        """Add a line of the command; return the name that it is about."""
        name = str(line["dataset"])
        if "error" in line:
            self.errors[name] = str(line["error"])
        else:
            self.results.setdefault(name, []).append(line)
        return name


def run_for(
    names: Sequence[str],
    command: Sequence[str],
    options: Sequence[str],
    *,
    each_within_s: float = EACH_WITHIN_S,
    within_s: float = BATCH_WITHIN_S,
) -> CommandResults:
    """Run a command for names, one after the other in one process.

    A name at which the process dies, or takes too long, has failed; another process goes on with
    those after it.

    Args:
        names: The names, each once.
        command: The words of the command before the names.
        options: The words after them.
        each_within_s: How long a process may be silent, in seconds.
        within_s: How long all names may take, in seconds.
    """
    found = CommandResults()
    left = list(names)
    ends_at = time.monotonic() + within_s
    while left and time.monotonic() < ends_at:
        watch = _Watch(each_within_s=each_within_s, ends_at=ends_at)
        ended = _run([*command, *left, *options], watch)
        known = {found.add(line) for line in ended.lines} & {*left}
        left = [name for name in left if name not in known]
        if left and ended.status < 0:
            found.errors[left.pop(0)] = watch.stopped or ended.ending
        elif not known:
            # It would say the same about those that are left.
            found.errors |= dict.fromkeys(left, ended.errors.strip() or ended.ending)
            break
    found.errors |= {name: OVER for name in left if name not in found.errors}
    return found


@attrs.define(kw_only=True)
class _Watch:
    """Kills a process that is silent for too long, or at a deadline.

    Attributes:
        each_within_s: How long the process may be silent, in seconds.
        ends_at: The deadline, by the monotonic clock.
        stopped: Why it was killed; empty if it was not.
    """

    each_within_s: float
    ends_at: float
    stopped: str = ""
    _said: threading.Event = attrs.field(factory=threading.Event, init=False)
    _ended: threading.Event = attrs.field(factory=threading.Event, init=False)

    def say(self) -> None:
        """Note that the process has printed a line."""
        self._said.set()

    def end(self) -> None:
        """Note that the process has ended."""
        self._ended.set()
        self._said.set()

    def over(self, process: subprocess.Popen[str]) -> None:
        """Watch a process until its end."""
        while (left_s := self.ends_at - time.monotonic()) > 0:
            said = self._said.wait(min(self.each_within_s, left_s))
            # An end after this line is seen at the next wait.
            self._said.clear()
            if self._ended.is_set():
                return
            if not said and time.monotonic() < self.ends_at:
                self.stopped = f"it took more than {self.each_within_s:g} s"
                break
        self.stopped = self.stopped or OVER
        process.kill()


def _run(command: Sequence[str], watch: _Watch) -> _EndedProcess:
    lines: list[dict[str, Json]] = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        watching = threading.Thread(target=watch.over, args=(process,), daemon=True)
        watching.start()
        try:
            for line in process.stdout or ():
                watch.say()
                # A process that is killed may leave a part of a line.
                if line.endswith("\n"):
                    lines.append(json.loads(line))
            process.wait()
        finally:
            watch.end()
            watching.join()
            process.kill()
        errors.seek(0)
        return _EndedProcess(lines=lines, errors=errors.read(), status=process.returncode)
