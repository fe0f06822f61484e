"""Hosts are apart, and stale answers are found; `make hosts` runs the platform on them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.answers import Answer, stale
from tests.hosts.machines import why_unavailable

PRIVATE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture
def apart() -> None:
    """Skip the test if this machine cannot have hosts."""
    why = why_unavailable()
    if why:
        pytest.skip(f"no network namespaces: {why}")


def test_an_answer_with_fewer_rows_than_an_earlier_one_is_stale() -> None:
    old = Answer("second", asked=2.0, answered=2.1, count=4)
    answers = [Answer("first", asked=0.0, answered=1.0, count=5), old]

    assert stale(answers) == [old]


def test_answers_at_the_same_time_may_differ() -> None:
    first = Answer("first", asked=0.0, answered=1.0, count=5)
    answers = [first, Answer("second", asked=0.9, answered=2.0, count=4)]

    assert stale(answers) == []


def test_a_question_without_an_answer_is_not_stale() -> None:
    answers = [
        Answer("first", asked=0.0, answered=1.0, count=5),
        Answer("second", asked=2.0, answered=7.0, count=None),
    ]

    assert stale(answers) == []


@pytest.mark.usefixtures("apart")
def test_hosts_have_networks_and_disks_of_their_own(tmp_path: Path) -> None:
    command = (*PRIVATE, sys.executable, "-m", "tests.hosts.tryout", str(tmp_path / "disks"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [what for what, is_so in seen.items() if not is_so] == []
