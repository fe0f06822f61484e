"""The changes that sinks derive from facts, in any order and over crashes."""

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._formats.keys import key_bytes
from narthex._ir.assets import (
    LogShape,
    SinkJobSpec,
)
from narthex._ir.connections import (
    KafkaTopic,
)
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact
from narthex._ir.schema import Column
from narthex._ir.types import Int
from narthex_spark_apps.sinks.changes import Op, RowChange, SinkState
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, SinkStage
from narthex_stores import IndexFenced, JobState
from tests.spark_apps.sinks.sink_world import (
    KEYLESS,
    T0,
    Written,
    event,
    records,
    row,
    spec_of,
)

TOPIC = KafkaTopic(name="bus", bootstrap_servers="", topic="told")


class RecordingTarget:
    """A target that records its changes."""

    def __init__(self) -> None:
        self.told: list[RowChange] = []
        self.marks: list[int] = []
        self.fails = False
        self.is_silent = False

    def claim(self) -> None:
        """This target refuses no run."""

    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        if self.fails:
            raise SinkFailedError("not now")
        self.told += changes
        self.marks.append(mark)
        if self.is_silent:
            raise SinkFailedError("it has the changes, and does not answer")

    def close(self) -> None:
        """Nothing is held."""

    def stands(self) -> dict[bytes, tuple[int, tuple[Cell, ...]]]:
        """Apply the recorded changes, in order."""
        found: dict[bytes, tuple[int, tuple[Cell, ...]]] = {}
        for change in self.told:
            found.pop(change.identity, None)
            if change.after is not None:
                found[change.identity] = (change.after.event_time, change.after.values)
        return found


def open_stage(
    path: Path,
    spec: SinkJobSpec,
    target: RecordingTarget,
    epoch: int = 1,
    written: Written | None = None,
) -> SinkStage:
    shared = (written or Written()).under(epoch)
    return SinkStage.open(
        spec, target, written=shared, directory=path / "sink", epoch=epoch, every_us=0
    )


LOG = ("log", 0)


def run_on(
    host: Path, target: RecordingTarget, written: Written, facts: Sequence[Fact], *, epoch: int
) -> Generator[int, None, None]:
    """Run a sink on a host, whose disk no other has; yield after each record that it has read."""
    host.mkdir(exist_ok=True)
    stage = open_stage(host, spec_of(TOPIC), target, epoch=epoch, written=written)
    try:
        begin = stage.resume({LOG: 0})[LOG]
        for number, record in enumerate(records(stage.spec, facts[begin:], begin=begin)):
            stage.take([record])
            stage.tell()
            yield begin + number + 1
    finally:
        stage.close()


FACTS = st.builds(
    lambda uid, at, version, name, kind: row(
        uid, at, version, name=name, alive=kind != "gone", void=at if kind == "void" else -1
    ),
    st.integers(0, 1),
    st.integers(0, 3),
    st.integers(0, 9),
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["row", "row", "gone", "void"]),
)


def expected(facts: Sequence[Fact]) -> dict[bytes, tuple[int, tuple[Cell, ...]]]:
    """Return the current rows, by the definition of a keyed dataset."""
    rows: dict[bytes, Fact] = {}
    for fact in facts:
        known = rows.get(fact.row_id)
        if known is None or known.version < fact.version:
            rows[fact.row_id] = fact
    newest: dict[tuple[Cell, ...], Fact] = {}
    for fact in sorted(rows.values(), key=lambda one: (one.event_time, one.version)):
        if fact.event_time != TOMBSTONE_TIME:
            newest[fact.key] = fact
    return {
        key_bytes((Column("uid", Int()),), key): (fact.event_time, fact.values)
        for key, fact in newest.items()
        if fact.alive
    }


def unique(facts: Sequence[Fact]) -> list[Fact]:
    """Keep one fact of each row and version: two would contradict each other."""
    return list({(fact.row_id, fact.version): fact for fact in facts}.values())


@settings(max_examples=60)
@given(facts=st.lists(FACTS, max_size=14), data=st.data())
def test_applying_all_changes_gives_the_state_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Fact], data: st.DataObject
) -> None:
    facts = unique(facts)
    told = [*facts, *data.draw(st.lists(st.sampled_from(facts), max_size=4))] if facts else []
    shuffled = data.draw(st.permutations(told))
    spec, target = spec_of(TOPIC, voidable=True), RecordingTarget()
    path = tmp_path_factory.mktemp("sink")
    stage = open_stage(path, spec, target)
    stage.resume({LOG: 0})
    for number, record in enumerate(records(spec, shuffled)):
        stage.take([record])
        match data.draw(st.sampled_from(["tell", "wait", "fail", "crash"])):
            case "tell":
                stage.tell()
            case "fail":
                target.fails = True
                with_failure(stage)
                target.fails = False
            case "crash":
                # The target was written, and the outbox was not emptied.
                target.told += [change for _, change in outbox(stage)]
                stage.close()
                stage = open_stage(path, spec, target, epoch=number + 2)
                stage.resume({LOG: 0})
            case _:
                pass
    stage.tell()
    stage.close()

    assert target.stands() == expected(facts)
    assert target.marks == sorted(set(target.marks))


def names_in(target: RecordingTarget) -> list[object]:
    return [values[0] for _, values in target.stands().values()]


STORY = [row(1, at, at + 1, name=name) for at, name in enumerate(("ann", "bob", "cid", "dan"))]


def test_a_host_without_the_state_writes_no_change_that_another_has_written(
    tmp_path: Path,
) -> None:
    target, written = RecordingTarget(), Written()
    list(run_on(tmp_path / "first", target, written, STORY[:3], epoch=1))

    for _ in run_on(tmp_path / "second", target, written, STORY, epoch=2):
        assert names_in(target) in (["cid"], ["dan"])

    assert [change.op for change in target.told] == [Op.CREATED, *[Op.UPDATED] * 3]


def test_a_slot_that_returns_in_the_middle_of_a_run_leaves_no_old_row(tmp_path: Path) -> None:
    target, written = RecordingTarget(), Written()
    list(run_on(tmp_path / "first", target, written, STORY, epoch=1))
    other = run_on(tmp_path / "second", target, written, STORY, epoch=2)
    next(other)
    other.close()
    list(run_on(tmp_path / "first", target, written, STORY, epoch=3))

    assert names_in(target) == ["dan"]


@settings(max_examples=60)
@given(
    facts=st.lists(FACTS, max_size=14).map(unique),
    turns=st.lists(
        st.tuples(
            st.sampled_from(["first", "second"]),
            st.integers(1, 6),
            st.sampled_from(["told", "not told", "no answer"]),
        ),
        max_size=8,
    ),
)
def test_hosts_that_take_turns_end_at_the_state_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Fact], turns: list[tuple[str, int, str]]
) -> None:
    spec, target, written = spec_of(TOPIC, voidable=True), RecordingTarget(), Written()
    path = tmp_path_factory.mktemp("hosts")
    for epoch, (host, count, ending) in enumerate((*turns, ("first", 99, "told")), start=1):
        (path / host).mkdir(exist_ok=True)
        stage = open_stage(path / host, spec, target, epoch=epoch, written=written)
        begin = stage.resume({LOG: 0})[LOG]
        stage.take(records(spec, facts[begin : begin + count], begin=begin))
        target.is_silent = ending == "no answer"
        with contextlib.suppress(SinkFailedError):
            if ending != "not told":
                stage.tell()
        stage.close()

    assert target.stands() == expected(facts)
    assert target.marks == sorted(set(target.marks))


def test_a_state_that_has_not_caught_up_puts_no_offset_back(tmp_path: Path) -> None:
    target, written = RecordingTarget(), Written()
    list(run_on(tmp_path / "first", target, written, STORY, epoch=1))
    (tmp_path / "second").mkdir()
    stage = open_stage(tmp_path / "second", spec_of(TOPIC), target, epoch=2, written=written)
    stage.resume({LOG: 0})
    stage.tell()
    stage.take(records(stage.spec, STORY[:1]))
    stage.tell()
    stage.close()

    assert written.shared == {LOG: len(STORY)}
    assert names_in(target) == ["dan"]


def test_a_sink_of_an_empty_log_commits_its_first_offset(tmp_path: Path) -> None:
    written = Written()
    stage = open_stage(tmp_path, spec_of(TOPIC), RecordingTarget(), written=written)
    stage.resume({LOG: 0})
    stage.tell()
    stage.close()

    assert written.shared == {LOG: 0}


def test_an_outbox_that_another_host_has_written_past_is_not_written(tmp_path: Path) -> None:
    target, written = RecordingTarget(), Written()
    first = tmp_path / "first"
    first.mkdir()
    stage = open_stage(first, spec_of(TOPIC), target, epoch=1, written=written)
    stage.resume({LOG: 0})
    stage.take(records(stage.spec, STORY[:2]))
    stage.close()
    list(run_on(tmp_path / "second", target, written, STORY[:3], epoch=2))
    before = len(target.told)

    for _ in run_on(first, target, written, STORY, epoch=3):
        assert names_in(target) in (["cid"], ["dan"])

    assert [change.after and change.after.values[0] for change in target.told[before:]] == ["dan"]
    assert target.marks == sorted(set(target.marks))


def test_a_run_that_was_taken_over_writes_nothing(tmp_path: Path) -> None:
    target, written = RecordingTarget(), Written()
    zombie = run_on(tmp_path / "first", target, written, STORY, epoch=1)
    next(zombie)
    list(run_on(tmp_path / "second", target, written, STORY, epoch=2))

    with pytest.raises(IndexFenced):
        next(zombie)
    assert names_in(target) == ["dan"]


def with_failure(stage: SinkStage) -> None:
    if stage.state.outbox():
        with pytest.raises(SinkFailedError):
            stage.tell()


def outbox(stage: SinkStage) -> list[tuple[int, RowChange]]:
    return [stage._unpacked(key, value) for key, value in stage.state.outbox()]  # noqa: SLF001


def changes(spec: SinkJobSpec, facts: Sequence[Fact], path: Path) -> list[RowChange]:
    state = JobState(path, epoch=1)
    try:
        return state.run(lambda batch: list(SinkState(spec).changes(batch, facts)))
    finally:
        state.close()


def test_late_older_rows_and_rows_outside_the_bounds_are_not_emitted(
    tmp_path: Path,
) -> None:
    bounded = spec_of(TOPIC, since_us=T0 + 2, until_us=T0 + 9)

    found = changes(
        bounded,
        [row(1, 5, 1), row(1, 3, 2), row(1, 9, 3), row(2, 1, 4), row(1, 5, 5, alive=False)],
        tmp_path / "state",
    )

    assert [(change.op, change.at_us - T0) for change in found] == [
        (Op.CREATED, 5),
        (Op.DELETED, 5),
    ]
    assert found[1].before == row(1, 5, 1)


def test_a_key_returns_to_its_earlier_row_when_its_newest_row_is_retracted(
    tmp_path: Path,
) -> None:
    facts = [row(1, 1, 1), row(1, 2, 2, name="bob"), row(1, 0, 3, void=2), row(1, 0, 4, void=1)]

    found = changes(spec_of(TOPIC, voidable=True), facts, tmp_path / "state")

    assert [(change.op, change.before, change.after) for change in found] == [
        (Op.CREATED, None, facts[0]),
        (Op.UPDATED, facts[0], facts[1]),
        (Op.UPDATED, facts[1], facts[0]),
        (Op.DELETED, facts[0], None),
    ]


def test_a_keyless_row_is_emitted_then_its_correction_then_its_delete(
    tmp_path: Path,
) -> None:
    spec = spec_of(TOPIC, schema=KEYLESS)
    facts = [event(1, 1), event(1, 1), event(2, 1), event(1, 3, name="bob"), event(1, 2)]

    found = changes(spec, [*facts, event(1, 4, alive=False)], tmp_path / "state")

    assert [(change.identity, change.op) for change in found] == [
        (b"row1", Op.CREATED),
        (b"row2", Op.CREATED),
        (b"row1", Op.UPDATED),
        (b"row1", Op.DELETED),
    ]


def test_a_fenced_run_applies_nothing(tmp_path: Path) -> None:
    spec = spec_of(TOPIC)
    state = JobState(tmp_path / "state", epoch=2)
    state.close()

    with pytest.raises(IndexFenced):
        JobState(tmp_path / "state", epoch=1)
    assert spec.log.shape is LogShape.KEYED
