"""Real child processes: groups that end as a whole, and children that end with their parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from narthex._processes import (
    Process,
    ProcessGroup,
    die_with_parent,
    dying_with_parent,
    end_leftovers,
    in_sessions,
    is_alive,
    process_of,
    wait_gone,
)

WITHIN_S = 30.0
PARENT = """
import signal, subprocess, sys
{before}
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
{then}
"""
OBEDIENT = PARENT.format(before="", then="child.wait()")
STUBBORN = PARENT.format(
    before="signal.signal(signal.SIGTERM, signal.SIG_IGN)", then="signal.pause()"
)

Start = Callable[[str], tuple[ProcessGroup, Process]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a program that starts another process and prints its pid."""
    groups = []

    def start(program: str) -> tuple[ProcessGroup, Process]:
        group = ProcessGroup.start(
            [sys.executable, "-c", program],
            environment=os.environ,
            log=tmp_path / "child.log",
            has_pipes=True,
        )
        groups.append(group)
        assert group.popen.stdout is not None
        grandchild = process_of(int(group.popen.stdout.readline()))
        assert grandchild is not None
        return group, grandchild

    yield start
    for group in groups:
        group.kill()
        group.popen.communicate()


def is_gone(process: Process) -> bool:
    return wait_gone((process,), within_s=WITHIN_S) == ()


def test_a_group_leads_a_session_that_has_all_its_processes(start: Start) -> None:
    group, grandchild = start(OBEDIENT)

    assert group.is_running
    assert group.ending == ""
    assert set(in_sessions((group.process,))) == {group.process, grandchild}
    assert in_sessions((Process(pid=group.pid, start=group.process.start + 1),)) == ()


def test_a_child_that_stops_in_time_takes_its_group_along(start: Start) -> None:
    group, grandchild = start(OBEDIENT)

    assert group.end(within_s=WITHIN_S)
    assert group.ending == "ended by SIGTERM"
    assert is_gone(grandchild)


def test_a_child_that_ignores_the_signal_is_killed_with_its_group(start: Start) -> None:
    group, grandchild = start(STUBBORN)

    assert not group.end(within_s=0.2)
    assert group.ending == "ended by SIGKILL"
    assert is_gone(grandchild)


def test_a_group_that_has_ended_can_be_ended_again(start: Start) -> None:
    group, _ = start(OBEDIENT)
    group.kill()

    assert group.end(within_s=WITHIN_S)


def test_an_exit_is_described_by_its_code(tmp_path: Path) -> None:
    group = ProcessGroup.start(
        ["sh", "-c", "echo done; exit 3"], environment={}, log=tmp_path / "logs" / "child.log"
    )
    group.popen.wait(WITHIN_S)

    assert group.ending == "exited with 3"
    assert (tmp_path / "logs" / "child.log").read_text() == "done\n"


def test_a_later_program_ends_a_dead_child_s_processes(start: Start, tmp_path: Path) -> None:
    group, grandchild = start(OBEDIENT)
    path = tmp_path / "child.pid"
    group.process.store(path)
    os.kill(group.pid, signal.SIGKILL)
    group.popen.wait(WITHIN_S)
    assert is_alive(grandchild)

    end_leftovers(path)

    assert not is_alive(grandchild)
    assert not path.exists()


def test_a_later_process_of_the_same_pid_is_not_a_leftover(start: Start, tmp_path: Path) -> None:
    group, grandchild = start(OBEDIENT)
    path = tmp_path / "child.pid"
    Process(pid=group.pid, start=group.process.start - 1).store(path)

    end_leftovers(path)

    assert group.is_running
    assert is_alive(grandchild)


def test_a_command_gets_its_signal_when_its_starter_dies(start: Start) -> None:
    program = (
        "import signal, subprocess\n"
        "from narthex._processes import dying_with_parent\n"
        "command = dying_with_parent(['sleep', '600'], number=signal.SIGTERM)\n"
        "child = subprocess.Popen(command, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    group, grandchild = start(program)
    # A signal before the command has asked the kernel for it is noticed, too.
    os.kill(group.pid, signal.SIGKILL)

    assert is_gone(grandchild)


@pytest.mark.parametrize(
    ("parent", "runs"), [(os.getpid(), True), (1, False)], ids=["runs", "ended"]
)
def test_a_command_runs_only_while_its_starter_runs(
    tmp_path: Path, parent: int, *, runs: bool
) -> None:
    program = die_with_parent.__file__
    arguments = (str(parent), "15", "-", "touch", str(tmp_path / "ran"))

    done = subprocess.run((sys.executable, program, *arguments), check=False, capture_output=True)

    assert (done.returncode, done.stderr) == (0 if runs else 1, b"")
    assert (tmp_path / "ran").exists() == runs


def test_a_command_that_dies_with_its_parent_runs_as_itself() -> None:
    command = dying_with_parent(["echo", "hello"], number=signal.SIGTERM)

    assert subprocess.run(command, check=True, capture_output=True).stdout == b"hello\n"
