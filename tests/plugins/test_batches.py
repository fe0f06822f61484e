"""Entries are divided into batches of one branch, and a name that fails loses no other."""

import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_plugins.batches import (
    LONGEST,
    MOST_TASKS,
    Entry,
    in_batches,
    label_of,
    name_of,
    run_for,
)

pytestmark = pytest.mark.slow

COUNTS = st.dictionaries(
    st.sampled_from(["main", "dev", *(f"b{number}" for number in range(30))]),
    st.tuples(st.integers(0, 400), st.integers(0, 60)),
    max_size=30,
)


def entries_of(counts: dict[str, tuple[int, int]]) -> list[Entry]:
    """Return datasets of each branch, then featuresets of each branch, as they are listed."""
    datasets = [
        {"branch": branch, "dataset": f"D{number}"}
        for branch, (count, _) in counts.items()
        for number in range(count)
    ]
    featuresets = [
        {"branch": branch, "featureset": f"F{number}"}
        for branch, (_, count) in counts.items()
        for number in range(count)
    ]
    return [*datasets, *featuresets]


def plain(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return sorted((entry["branch"], name_of(entry)) for entry in entries)


@given(COUNTS)
def test_every_entry_is_in_one_batch_of_its_branch(counts: dict[str, tuple[int, int]]) -> None:
    entries = entries_of(counts)

    batches = in_batches(entries)

    assert plain([entry for batch in batches for entry in batch]) == plain(entries)
    assert all(len({entry["branch"] for entry in batch}) == 1 for batch in batches)


@given(COUNTS)
def test_batches_are_few_short_and_even(counts: dict[str, tuple[int, int]]) -> None:
    entries = entries_of(counts)
    of_branch = [sum(both) for both in counts.values() if sum(both)]

    batches = in_batches(entries)

    sizes = [len(batch) for batch in batches]
    assert all(1 <= size <= LONGEST for size in sizes)
    if len(entries) <= MOST_TASKS:
        assert sizes == [1] * len(entries)
    fewest = sum(-(-count // LONGEST) for count in of_branch)
    assert len(batches) <= max(MOST_TASKS, fewest)
    for one, other in pairwise(batches):
        if one[0]["branch"] == other[0]["branch"]:
            assert abs(len(one) - len(other)) <= 1


@pytest.mark.parametrize(
    ("count", "batches", "longest"),
    [(0, 0, 0), (20, 20, 1), (21, 11, 2), (300, 20, 15), (1000, 20, 50), (1001, 21, 48)],
)
def test_a_branch_has_at_most_twenty_batches_while_they_are_short(
    count: int, batches: int, longest: int
) -> None:
    sizes = [len(batch) for batch in in_batches(entries_of({"main": (count, 0)}))]

    assert (len(sizes), max(sizes, default=0), sum(sizes)) == (batches, longest, count)


def test_a_label_names_the_first_entry_the_others_and_the_branch() -> None:
    (alone,) = in_batches([{"branch": "main", "dataset": "Orders"}])
    (elsewhere,) = in_batches([{"branch": "dev", "featureset": "Buyer"}])
    many = in_batches(entries_of({"main": (30, 0), "dev": (0, 30)}))

    assert label_of(alone) == "Orders"
    assert label_of(elsewhere) == "Buyer on dev"
    assert label_of(many[0]) == "D0 and 2 more"
    assert label_of(many[-1]) == "F27 and 2 more on dev"


_WORK = """
import json, os, sys, time
for name in sys.argv[1:]:
    if name == "killed":
        os.kill(os.getpid(), 9)
    if name == "endless":
        time.sleep(600)
    if name in {"slow", "slower"}:
        time.sleep(2)
    if name == "unable":
        sys.exit("nothing can be done")
    failed = {"error": "it broke"} if name == "broken" else {"process": os.getpid()}
    print(json.dumps({"dataset": name, **failed}), flush=True)
"""
COMMAND = [sys.executable, "-c", _WORK]


def test_all_names_have_one_process() -> None:
    done = run_for(["a", "broken", "c"], COMMAND, [])

    assert done.errors == {"broken": "it broke"}
    assert list(done.results) == ["a", "c"]
    assert [len(lines) for lines in done.results.values()] == [1, 1]
    assert done.results["a"][0]["process"] == done.results["c"][0]["process"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("killed", "the process was killed by signal 9"),
        ("endless", "it took more than 3 s"),
        ("unable", "nothing can be done"),
    ],
)
def test_a_name_at_which_the_process_ends_loses_no_other(name: str, why: str) -> None:
    done = run_for(["a", name, "c"], COMMAND, [], each_within_s=3.0)

    assert set(done.results) | set(done.errors) == {"a", name, "c"}
    assert done.errors[name] == why
    if name != "unable":
        assert set(done.results) == {"a", "c"}
        assert done.results["a"][0]["process"] != done.results["c"][0]["process"]


@pytest.mark.parametrize("name", ["endless", "slow"])
def test_names_that_are_left_over_have_failed(name: str) -> None:
    done = run_for(["a", name, "slower", "c"], COMMAND, [], within_s=3.0)

    assert "a" in done.results
    assert done.errors["c"] == "the time of its batch was over"
    assert set(done.results) | set(done.errors) == {"a", name, "slower", "c"}
