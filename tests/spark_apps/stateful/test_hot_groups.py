"""A row costs the same in a group of many rows as in a group of few."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from typing_extensions import override

from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import PipelineJobSpec
from narthex._ir.facts import Fact
from narthex._runtime.steps import StepContext
from narthex._sdk.commit_definitions import definitions
from narthex._testing.in_process import InProcessCalls
from narthex_reference.conformance.case import SECOND, SentRow, case, row
from narthex_reference.conformance.joined_rows import Enriched, Living, Rated
from narthex_reference.conformance.remade_rows import (
    Insertions,
    LatestOrder,
    Once,
    OnceEvery,
    OnceInARow,
)
from narthex_reference.conformance.shop import Countries, Orders, Users
from narthex_reference.conformance.windowed_groups import FinalTens, Hops, Sessions, Tens
from narthex_spark_apps.stateful.rows_and_tombstones import RowEmitter
from narthex_spark_apps.stateful.step_tree import tree_of
from narthex_stores import JobState, StateBatch
from tests.spark_apps.stateful.stateful_engine import forget

USER = 7
FEW, MANY = 34, 604
"""Both are in the middle of a window of ten seconds."""


class CountedBatch(StateBatch):
    """Counts the entries that it reads."""

    reads = 0

    @override
    def _get(self, table: bytes, key: bytes) -> bytes | None:
        CountedBatch.reads += 1
        return super()._get(table, key)

    @override
    def _upwards(self, table: bytes, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        for entry in super()._upwards(table, prefix, start):
            CountedBatch.reads += 1
            yield entry

    @override
    def _downwards(self, table: bytes, prefix: bytes, end: bytes) -> Iterator[bytes]:
        for key in super()._downwards(table, prefix, end):
            CountedBatch.reads += 1
            yield key


def orders_of_one_user(count: int) -> Sequence[Fact]:
    """Return orders of one user, one a second, with a longer pause after every ten."""
    instants = [60 + at + at // 10 * 10 for at in range(count)]
    sent = [row(Orders, USER, "a", float(at), at * SECOND) for at in instants]
    return [fact for _, fact in case("hot", [Orders], sent).facts]


def states_of_one_user(count: int) -> Sequence[Fact]:
    """Return the states of one user, a new one each second."""
    sent = [row(Users, USER, "nl", at, (60 + at) * SECOND) for at in range(count)]
    return [fact for _, fact in case("hot", [Users], sent).facts]


@pytest.mark.parametrize(
    ("dataset", "others"),
    [
        (Once, ()),
        (OnceEvery, ()),
        (OnceInARow, ()),
        (Insertions, ()),
        (LatestOrder, ()),
        (Enriched, (row(Users, USER, "nl", 1, SECOND),)),
        (Tens, ()),
        (FinalTens, ()),
        (Hops, ()),
        (Sessions, ()),
        (Rated, (row(Countries, "nl", 1.5, SECOND),)),
        (Living, (row(Countries, "nl", 1.5, SECOND),)),
    ],
)
def test_a_row_of_a_hot_key_reads_no_more_after_many_rows(
    dataset: type, others: Sequence[SentRow], tmp_path: Path
) -> None:
    blueprint = compile_blueprint(definitions([Orders, Users, Countries, dataset], []))
    (spec,) = (a.spec for a in blueprint.assets if isinstance(a.spec, PipelineJobSpec))
    hot = spec.inputs[0].dataset
    context = StepContext(calls=InProcessCalls(), title="hot", set_apart=forget)
    tree = tree_of(spec, context)
    emitter = RowEmitter.of(spec, tree.schema)
    state = JobState(tmp_path / "state", epoch=1)
    given = case("others", [Users, Countries], others).facts

    def reads(rows: Sequence[Fact]) -> int:
        def work(batch: StateBatch) -> None:
            counted = CountedBatch(*attrs.astuple(batch, recurse=False))
            arrived = {name: [fact] for name, fact in given} | {hot: rows}
            emitter.records(counted, tree.changes(counted, arrived))

        before = CountedBatch.reads
        state.run(work)
        return CountedBatch.reads - before

    rows = (orders_of_one_user if hot == "Orders" else states_of_one_user)(MANY + 1)
    reads(rows[:FEW])
    among_few = reads(rows[FEW : FEW + 1])
    reads(rows[FEW + 1 : MANY])

    assert reads(rows[MANY:]) == among_few > 0
    state.close()
