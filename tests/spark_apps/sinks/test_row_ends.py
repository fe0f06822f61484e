"""Facts that end rows let a sink delete exactly the rows that another log lacks."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._ir.assets import SinkJobSpec
from narthex._ir.facts import Cell, Fact
from narthex_stores.kafka.row_ends import CurrentRows, missing_ends
from tests.spark_apps.sinks.sink_world import KEYLESS, T0, event, records, spec_of
from tests.spark_apps.sinks.test_sink_changes import (
    FACTS,
    LOG,
    TOPIC,
    RecordingTarget,
    open_stage,
    unique,
)


def current(spec: SinkJobSpec, facts: Sequence[Fact]) -> CurrentRows:
    found = CurrentRows(spec)
    for record in records(spec, facts):
        found.take(record)
    return found


def written(
    path: Path, spec: SinkJobSpec, facts: Sequence[Fact]
) -> dict[bytes, tuple[int, tuple[Cell, ...]]]:
    """Let a sink write the facts of a log, and return the rows of its target."""
    target = RecordingTarget()
    stage = open_stage(path, spec, target)
    stage.resume({LOG: 0})
    stage.take(records(spec, facts))
    stage.tell()
    stage.close()
    return target.stands()


def with_ends(spec: SinkJobSpec, facts: Sequence[Fact], kept: Sequence[Fact]) -> list[Fact]:
    """Return a log in which the rows have ended that the other one lacks."""
    ends = missing_ends(current(spec, facts), current(spec, kept))
    return [*facts, *(fact for _, fact in ends)]


@settings(max_examples=60)
@given(
    facts=st.lists(FACTS, max_size=14),
    erased=st.sets(st.integers(0, 1)),
    bounds=st.sampled_from([(None, None), (T0 + 1, None), (None, T0 + 2)]),
    data=st.data(),
)
def test_the_target_has_only_rows_that_the_new_log_has(
    tmp_path_factory: pytest.TempPathFactory,
    facts: list[Fact],
    erased: set[int],
    bounds: tuple[int | None, int | None],
    data: st.DataObject,
) -> None:
    since, until = bounds
    spec = spec_of(TOPIC, voidable=True)
    spec = attrs.evolve(spec, sink=attrs.evolve(spec.sink, since_us=since, until_us=until))
    told = data.draw(st.permutations(unique(facts)))
    kept = [fact for fact in told if fact.key[0] not in erased]
    path = tmp_path_factory.mktemp("sink")

    ended = with_ends(spec, told, kept)

    assert written(path / "old", spec, ended) == written(path / "new", spec, kept)
    assert set(current(spec, told).rows) == set(written(path / "all", spec, told))
    assert with_ends(spec, ended, kept) == ended, "nothing is ended twice"


def test_a_keyless_row_that_the_new_log_lacks_is_deleted(tmp_path: Path) -> None:
    spec = spec_of(TOPIC, schema=KEYLESS)
    told = [event(0, 1), event(1, 2)]

    ended = with_ends(spec, told, told[1:])

    assert len(current(spec, ended).ended) == 1
    assert written(tmp_path / "old", spec, ended) == written(tmp_path / "new", spec, told[1:])
    assert len(written(tmp_path / "all", spec, told)) == 2
