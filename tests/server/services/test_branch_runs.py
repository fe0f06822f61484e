"""Runs for requests are few at once, and no branch has all of them."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from narthex_server.errors import TooManyRequests
from narthex_server.services.row_inspections import BranchRuns

WITHIN_S = 30.0


def test_a_branch_with_a_run_that_does_not_end_leaves_room_for_another_branch() -> None:
    runs = BranchRuns(2, most_waiting=1)

    with runs.one("hers"):
        with pytest.raises(TooManyRequests), runs.one("hers", within_s=0.0):
            raise AssertionError("it has two")
        refused = pytest.raises(TooManyRequests)
        with runs.one("his", within_s=0.0), refused, runs.one("theirs", within_s=0.0):
            raise AssertionError("there are three")
        with runs.one("theirs", within_s=0.0):
            pass
    with runs.one("hers", within_s=0.0):
        pass


def test_a_request_waits_for_the_end_of_a_run_of_its_branch() -> None:
    runs = BranchRuns(2, most_waiting=1)
    began, go = Event(), Event()

    def run() -> None:
        with runs.one("hers", within_s=WITHIN_S):
            began.set()
            assert go.wait(WITHIN_S)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(run)
        assert began.wait(WITHIN_S)
        began.clear()
        second = threads.submit(run)
        go.set()
        first.result(WITHIN_S)
        second.result(WITHIN_S)
    assert began.is_set()


def test_few_requests_of_a_branch_wait() -> None:
    runs = BranchRuns(2, most_waiting=0)

    with pytest.raises(TooManyRequests), runs.one("hers"):
        raise AssertionError("it did not wait")
