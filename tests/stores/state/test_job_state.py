"""The state of a job: batches are whole, numbers only grow, and old runs are refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from narthex_stores import IndexFenced, JobState, StateBatch, group_at, place_of
from narthex_stores.state.job_state import number_of, version_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def state(path: Path) -> Iterator[JobState]:
    opened = JobState(path, epoch=3, map_size=1 << 20)
    yield opened
    opened.close()


class Broken(Exception):
    """The failure of a test's batch."""


def keep(batch: StateBatch) -> bytes:
    batch.advance({("rows", 0): 7})
    batch.post([(b"key", b"value")])
    batch.set_emitted(b"row", b"said")
    group = place_of(b"group")
    batch.move(1, 0, b"row", group)
    batch.keep(1, 0, group, b"row", b"cells")
    return group


def test_a_batch_commits_with_its_offsets_and_outbox(state: JobState) -> None:
    group = state.run(keep)

    assert state.offsets() == {("rows", 0): 7}
    assert state.outbox() == [(b"key", b"value")]
    assert state.run(lambda batch: list(batch.members(1, 0, group))) == [b"cells"]
    assert state.run(lambda batch: batch.place(1, 0, b"row")) == group


def test_a_batch_that_fails_leaves_nothing(state: JobState) -> None:
    def fail(batch: StateBatch) -> None:
        keep(batch)
        raise Broken

    with pytest.raises(Broken):
        state.run(fail)

    assert state.offsets() == {}
    assert state.outbox() == []
    assert state.run(lambda batch: batch.emitted(b"row")) is None


def test_a_cleared_state_is_empty_and_its_numbers_go_on(path: Path, state: JobState) -> None:
    before = state.run(lambda batch: (keep(batch), batch.number)[1])

    state.clear()

    assert (state.offsets(), state.outbox(), state.newest()) == ({}, [], b"")
    assert state.run(lambda batch: (batch.emitted(b"row"), batch.number)) == (None, before + 1)
    state.close()
    with pytest.raises(IndexFenced):
        JobState(path, epoch=2)


def test_a_state_in_another_layout_is_cleared_and_in_the_same_layout_kept(
    state: JobState,
) -> None:
    state.run(keep)
    state.require_layout(1)
    assert state.offsets() == {}

    state.run(keep)
    state.require_layout(1)
    assert state.offsets() == {("rows", 0): 7}


def test_rows_with_instants_are_read_by_time(state: JobState) -> None:
    group = group_at(place_of(b"a", 5))

    def keep_rows(batch: StateBatch) -> None:
        for key, at in [(b"b", 4), (b"a", 5), (b"a", -3), (b"a", 9), (b"a", 0)]:
            batch.keep(1, 0, place_of(key, at), b"%b%d" % (key, at), b"%d" % at)

    state.run(keep_rows)

    def read(batch: StateBatch) -> tuple[list[bytes], list[int], list[int]]:
        return (
            [*batch.members_between(1, 0, group, -3, 5)],
            [*batch.instants_before(1, 0, group, 5)],
            [*batch.instants_after(1, 0, group, 0)],
        )

    assert state.run(read) == ([b"-3", b"0", b"5"], [0, -3], [5, 9])


def test_the_outbox_is_kept_until_it_is_emptied(path: Path) -> None:
    first = JobState(path, epoch=1)
    first.run(keep)
    first.close()

    second = JobState(path, epoch=1)
    assert second.outbox() == [(b"key", b"value")]
    second.empty_outbox()
    assert second.outbox() == []
    second.close()


def test_numbers_only_grow_also_over_failures_of_the_process(path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        state = JobState(path, epoch=1)
        numbers += [state.run(lambda batch: batch.number) for _ in range(2)]
        state.close()

    assert numbers == [1, 2, 3, 4, 5, 6]


def test_versions_sort_by_the_epoch_of_the_owner_and_then_by_the_number(tmp_path: Path) -> None:
    versions: list[bytes] = []
    for name, epoch, batches in (("first", 1, 300), ("second", 2, 2), ("third", 1 << 40, 1)):
        state = JobState(tmp_path / name, epoch=epoch)
        versions += [state.run(lambda batch: batch.version) for _ in range(batches)]
        state.close()

    assert sorted(set(versions)) == versions
    assert number_of(versions[299]) == 300


def test_facts_of_the_log_are_known_once_posted_or_taken_over(path: Path) -> None:
    state = JobState(path, epoch=2)
    fresh = state.newest()
    state.run(lambda batch: batch.advance({("rows", 0): 1}))
    without_records = state.newest()
    taken_over = version_of(1, 9)
    state.run(lambda batch: batch.know(taken_over))
    known = state.newest()
    posted = state.run(post)
    state.close()

    assert (fresh, without_records, known) == (b"", b"", taken_over)
    assert (JobState(path, epoch=2).newest(), number_of(posted)) == (posted, 10)


def post(batch: StateBatch) -> bytes:
    batch.post([(b"key", b"value")])
    return batch.version


def test_offsets_never_go_back(state: JobState) -> None:
    state.run(lambda batch: batch.advance({("rows", 0): 7, ("rows", 1): 2}))
    state.run(lambda batch: batch.advance({("rows", 0): 5, ("rows", 1): 3}))

    assert state.offsets() == {("rows", 0): 7, ("rows", 1): 3}


def test_a_run_of_an_earlier_epoch_is_refused_when_it_opens(path: Path) -> None:
    JobState(path, epoch=5).close()

    with pytest.raises(IndexFenced, match="epoch 5"):
        JobState(path, epoch=4)


def test_a_row_replaces_the_one_at_its_place(state: JobState) -> None:
    group = place_of(b"one")

    first = state.run(lambda batch: batch.keep(1, 0, group, b"row", b"cells"))
    second = state.run(lambda batch: batch.keep(1, 0, group, b"row", b"others"))

    assert (first, second) == (None, b"cells")
    assert state.run(lambda batch: list(batch.members(1, 0, group))) == [b"others"]


def test_a_row_that_left_its_place_is_removed(state: JobState) -> None:
    group = place_of(b"one")
    state.run(lambda batch: batch.keep(1, 0, group, b"row", b"cells"))

    left = state.run(lambda batch: batch.leave(1, 0, group, b"row"))
    again = state.run(lambda batch: batch.leave(1, 0, group, b"row"))

    assert (left, again) == (b"cells", None)
    assert state.run(lambda batch: list(batch.members(1, 0, group))) == []


def test_the_place_of_a_row_is_the_one_that_it_was_moved_to_last(state: JobState) -> None:
    def place() -> bytes | None:
        return state.run(lambda batch: batch.place(1, 0, b"row"))

    found = [place()]
    for at in (b"one", b"two", None):
        state.run(lambda batch, at=at: batch.move(1, 0, b"row", at))
        found.append(place())

    assert found == [None, b"one", b"two", None]


def test_groups_of_long_and_of_nested_names_are_apart(state: JobState) -> None:
    names = [b"a" * 300, b"a" * 301, b"a" * 200, b"\x00\x00\x00\x01a", b"\x00\x00\x00\x01b"]

    groups = [place_of(name) for name in names]

    def fill(batch: StateBatch) -> None:
        for group, name in zip(groups, names, strict=True):
            batch.keep(1, 0, group, name, name)

    state.run(fill)
    found = state.run(lambda batch: [list(batch.members(1, 0, group)) for group in groups])
    assert found == [[name] for name in names]


def test_a_full_map_grows_and_the_batch_is_done_once(state: JobState) -> None:
    def fill(batch: StateBatch) -> None:
        for number in range(4_000):
            row = number.to_bytes(4, "big")
            batch.keep(1, 0, place_of(b"\x00\x00\x00\x01g"), row, row * 100)

    state.run(fill)
    group = place_of(b"\x00\x00\x00\x01g")
    assert state.run(lambda batch: len(list(batch.members(1, 0, group)))) == 4_000
