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
from narthex_reference.conformance.case import SECOND, case, row
from narthex_reference.conformance.joined_rows import Enriched
from narthex_reference.conformance.remade_rows import LatestOrder, Once, OnceEvery
from narthex_reference.conformance.shop import Orders, Users
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
    def _scan(self, table: bytes, prefix: bytes) -> Iterator[bytes]:
        for value in super()._scan(table, prefix):
            CountedBatch.reads += 1
            yield value


def orders_of_one_user(count: int) -> Sequence[Fact]:
    """Return orders of one user, one a second."""
    sent = [row(Orders, USER, "a", float(at), (60 + at) * SECOND) for at in range(count)]
    return [fact for _, fact in case("hot", [Orders], sent).facts]


@pytest.mark.parametrize("dataset", [Once, OnceEvery, LatestOrder, Enriched])
def test_a_row_of_a_hot_key_reads_no_more_after_many_rows(dataset: type, tmp_path: Path) -> None:
    blueprint = compile_blueprint(definitions([Orders, Users, dataset], []))
    (spec,) = (a.spec for a in blueprint.assets if isinstance(a.spec, PipelineJobSpec))
    context = StepContext(calls=InProcessCalls(), title="hot", set_apart=forget)
    tree = tree_of(spec, context)
    emitter = RowEmitter.of(spec, tree.schema)
    state = JobState(tmp_path / "state", epoch=1)
    (user,) = (fact for _, fact in case("u", [Users], [row(Users, USER, "nl", 1, SECOND)]).facts)

    def reads(orders: Sequence[Fact]) -> int:
        def work(batch: StateBatch) -> None:
            counted = CountedBatch(*attrs.astuple(batch, recurse=False))
            emitter.records(counted, tree.changes(counted, {"Orders": orders, "Users": users}))

        before, users = CountedBatch.reads, [user]
        state.run(work)
        return CountedBatch.reads - before

    orders = orders_of_one_user(MANY + 1)
    reads(orders[:FEW])
    among_few = reads(orders[FEW : FEW + 1])
    reads(orders[FEW + 1 : MANY])

    assert reads(orders[MANY:]) == among_few > 0
    state.close()
