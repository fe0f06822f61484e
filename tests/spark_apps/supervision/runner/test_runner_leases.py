"""A child follows its supervisor's leases, however late the messages arrive."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    OfflineRun,
    render_desired,
    render_lease,
)

pytestmark = pytest.mark.slow

WORK = DesiredAssignments(
    assignments=(), offline=(OfflineRun(request_id="r", epoch=1, request=None),), turn=7
)
IDLE = DesiredAssignments(assignments=(), turn=7)

CHILD = """
import os, sys
from narthex_spark_apps.supervision.runner import Inbox
inbox = Inbox()
inbox.listen(sys.stdin, send=print, gone=lambda: os._exit(9))
while True:
    found = inbox.newest(wait_s=5)
    if found is not None:
        # Reports go to stdout; what this test wants to see goes to stderr.
        print(f"given {found.turn} {len(found.offline)}", file=sys.stderr, flush=True)
        {then}
"""


@contextmanager
def child(*lines: str, then: str = "") -> Iterator["subprocess.Popen[str]"]:
    """Start a child whose pipe already contains some lines."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.replace("{then}", then or "pass")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    tell(process, *lines)
    yield process
    process.kill()
    process.communicate()


def tell(process: "subprocess.Popen[str]", *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()


def given(process: "subprocess.Popen[str]") -> str:
    """Return the next set that the child was given: its turn, and how much work."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("given "):
            return line.removeprefix("given ").strip()
    return f"it ended with {process.wait()}"


def in_s(seconds: float) -> str:
    return render_lease(since=time.monotonic(), lasts_s=seconds)


def until_given(process: "subprocess.Popen[str]", wanted: str) -> bool:
    """Read on until the child is given this; False when it ends before."""
    while (found := given(process)) != wanted:
        if "ended" in found:
            return False
    return True


def test_a_child_that_starts_late_minds_the_newest_news() -> None:
    with child(in_s(-100), in_s(-50), render_desired(WORK), in_s(600)) as process:
        assert until_given(process, "7 1")
        assert process.poll() is None


def test_jobs_stop_when_the_leases_end_and_start_when_they_return() -> None:
    with child(render_desired(WORK), in_s(1.0)) as process:
        assert until_given(process, "7 1")
        assert given(process) == "7 0"
        tell(process, in_s(600))
        assert given(process) == "7 1"


def test_a_child_that_cannot_release_its_jobs_exits() -> None:
    with child(render_desired(WORK), in_s(0.5), then="import time; time.sleep(60)") as process:
        assert until_given(process, "7 1")
        assert process.wait(60) == 9


def test_a_child_without_jobs_does_not_exit() -> None:
    with child(in_s(-100), render_desired(IDLE), then="import time; time.sleep(4)") as process:
        assert until_given(process, "7 0")
        assert given(process) == "7 0"
