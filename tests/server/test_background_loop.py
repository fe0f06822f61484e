"""Loops of work beside the requests of a process."""

import threading

from narthex_ledger import LedgerUnreachable
from narthex_server.background_loop import BackgroundLoop


def test_a_round_that_fails_does_not_end_the_loop() -> None:
    rounds: list[int] = []
    done = threading.Event()

    def work() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise LedgerUnreachable("away")
        if len(rounds) == 2:
            raise ZeroDivisionError
        done.set()

    loop = BackgroundLoop(work, name="worker", event="work_failed", pause_s=lambda: 0.01)
    loop.start()

    assert done.wait(10.0)
    loop.stop()
    assert not any(one.name == "worker" for one in threading.enumerate())


def test_a_stopped_loop_starts_again() -> None:
    rounds = threading.Semaphore(0)
    loop = BackgroundLoop(rounds.release, name="worker", event="work_failed", pause_s=lambda: 0.0)

    for _ in range(2):
        loop.start()
        assert rounds.acquire(timeout=10.0)
        loop.stop()
        assert loop.is_stopping


def test_a_loop_that_ends_with_a_round_does_one_when_it_stops() -> None:
    rounds: list[str] = []
    for is_last, expected in ((False, []), (True, ["round"])):
        loop = BackgroundLoop(
            lambda: rounds.append("round"),
            name="worker",
            event="work_failed",
            pause_s=lambda: 3600.0,
            ends_with_round=is_last,
        )
        loop.start()
        loop.stop()
        assert rounds == expected


def test_a_call_to_wake_begins_the_next_round_before_its_time() -> None:
    rounds = threading.Semaphore(0)
    is_held = threading.Event()

    def work() -> None:
        rounds.release()
        assert is_held.wait(10.0)

    loop = BackgroundLoop(work, name="worker", event="work_failed", pause_s=lambda: 3600.0)
    loop.wake()
    loop.start()
    assert rounds.acquire(timeout=10.0)

    loop.wake()  # during a round
    loop.wake()
    is_held.set()
    assert rounds.acquire(timeout=10.0)
    assert not rounds.acquire(timeout=0.2)

    loop.wake()  # during a pause
    assert rounds.acquire(timeout=10.0)
    loop.stop()


def test_a_loop_that_was_woken_pauses_again_after_it_was_stopped() -> None:
    rounds = threading.Semaphore(0)
    loop = BackgroundLoop(
        rounds.release, name="worker", event="work_failed", pause_s=lambda: 3600.0
    )
    loop.start()
    loop.wake()
    assert rounds.acquire(timeout=10.0)
    loop.stop()

    loop.start()

    assert not rounds.acquire(timeout=0.2)
    loop.stop()
