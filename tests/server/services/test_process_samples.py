"""The loop of a process that samples its queries."""

import threading

from narthex_ledger import LedgerUnreachable
from narthex_server.services.process_samples import MinuteLoop


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

    loop = MinuteLoop(work, event="metrics_not_sampled", pause_s=lambda _now_s: 0.01)
    loop.start()

    assert done.wait(10.0)
    loop.stop()
    assert not any(one.name == "metrics" for one in threading.enumerate())
