"""The loop of one service: when it restarts the service, and when it calls it unwell."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from narthex_stack.install.layout import HomeLayout
from narthex_stack.operator.service_loop import RESTARTS, ServiceLoop
from narthex_stack.operator.status import ServiceState
from narthex_stack.processes.service import Service

SEEN_S = 30.0


def test_the_longest_pause_doubles_and_ends_at_half_a_minute() -> None:
    longest = attrs.evolve(RESTARTS, random=lambda: 1.0)

    assert [longest.delay_s(failures) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert longest.delay_s(1000) == 30


def test_a_pause_is_drawn_from_the_whole_range() -> None:
    shortest = attrs.evolve(RESTARTS, random=lambda: 0.0)
    first = {RESTARTS.delay_s(1) for _ in range(100)}
    late = {RESTARTS.delay_s(1000) for _ in range(100)}

    assert (shortest.delay_s(1), shortest.delay_s(1000)) == (0, 0)
    assert 0 <= min(first) < max(first) < 1
    assert 0 <= min(late) < max(late) < 30


def seen(happens: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + SEEN_S
    while not happens() and time.monotonic() < ends_at:
        time.sleep(0.05)
    return happens()


@pytest.mark.slow
@pytest.mark.parametrize("all_end", [False, True])
def test_a_service_that_misses_another_is_unwell_unless_all_end(
    tmp_path: Path, *, all_end: bool
) -> None:
    is_broken, probes = threading.Event(), [0]

    def probe() -> str | None:
        probes[0] += is_broken.is_set()
        return "the broker is gone" if is_broken.is_set() else None

    service = Service(
        name="server",
        group="server",
        command=(sys.executable, "-c", "import time; time.sleep(600)"),
        cwd=tmp_path,
        probe=probe,
    )
    states = []
    loop = ServiceLoop(
        service,
        layout=HomeLayout(tmp_path),
        is_healthy=lambda _: True,
        changed=lambda: states.append(loop.status.state),
        started=lambda *_: None,
    )
    (tmp_path / "logs").mkdir()
    loop.begin()
    assert seen(lambda: loop.status.state is ServiceState.HEALTHY)

    if all_end:
        loop.expect_end()
    is_broken.set()

    assert seen(lambda: probes[0] > 1)
    loop.ask_to_stop()
    assert seen(lambda: loop.has_stopped)
    assert (ServiceState.UNWELL in states) is not all_end


_STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("ready", "w").close()
time.sleep(600)
"""


def test_a_service_that_does_not_stop_is_killed_after_its_own_time(tmp_path: Path) -> None:
    service = Service(
        name="server",
        group="server",
        command=(sys.executable, "-c", _STUBBORN),
        cwd=tmp_path,
        probe=lambda: None if (tmp_path / "ready").exists() else "it starts",
        stop_within_s=0.5,
    )
    loop = ServiceLoop(
        service,
        layout=HomeLayout(tmp_path),
        is_healthy=lambda _: True,
        changed=lambda: None,
        started=lambda *_: None,
    )
    (tmp_path / "logs").mkdir()
    loop.begin()
    assert seen(lambda: loop.status.state is ServiceState.HEALTHY)

    loop.ask_to_stop()
    asked_at = time.monotonic()
    assert seen(lambda: loop.has_stopped)
    assert 0.5 <= time.monotonic() - asked_at < 20.0
