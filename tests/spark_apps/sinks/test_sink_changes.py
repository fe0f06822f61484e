"""The changes that sinks derive from facts, in any order and over crashes."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._formats.avro.codec import key_bytes
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

    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        if self.fails:
            raise SinkFailedError("not now")
        self.told += changes
        self.marks.append(mark)

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


def open_stage(path: Path, spec: SinkJobSpec, target: RecordingTarget, epoch: int = 1) -> SinkStage:
    return SinkStage.open(spec, target, directory=path / "sink", epoch=epoch, every_us=0)


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
            case _:
                pass
    stage.tell()
    stage.close()

    assert target.stands() == expected(facts)
    assert target.marks == sorted(set(target.marks))


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
