"""Measure the stateful steps of pipelines; print a table and one line of JSON.

python -m bench.stateful [--rows 4000] [--batch 20]

Rows per CPU-second of a step with its state, without a broker: for rows of many users, and for
rows of one, whose group grows. Compare the two: a row of a hot key should cost what any row does.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import report_result
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import PipelineJobSpec
from narthex._ir.facts import Fact
from narthex._runtime.steps import FailedRow, StepContext
from narthex._sdk.commit_definitions import definitions
from narthex._testing.in_process import InProcessCalls
from narthex_reference.conformance.case import SECOND, case, row
from narthex_reference.conformance.joined_rows import Enriched
from narthex_reference.conformance.remade_rows import (
    Deletions,
    FirstOrder,
    LatestOrder,
    Once,
    OnceEvery,
    OnceInARow,
)
from narthex_reference.conformance.shop import Orders, Users
from narthex_spark_apps.stateful.rows_and_tombstones import RowEmitter
from narthex_spark_apps.stateful.step_tree import tree_of
from narthex_stores import JobState, StateBatch

STEPS: dict[str, type] = {
    "dedup": Once,
    "dedup, windows of 10 s": OnceEvery,
    "dedup, sessions": OnceInARow,
    "latest": LatestOrder,
    "first": FirstOrder,
    "join": Enriched,
    "changelog": Deletions,
}


def facts_of(dataset: type, count: int, *, users: int) -> Sequence[Fact]:
    """Return orders or states of users, in the order of time, ten a second."""
    times = ((60 * SECOND + at * SECOND // 10, at) for at in range(count))
    if dataset is Users:
        rows = [row(Users, at % users, "nl", at, time_us) for time_us, at in times]
    else:
        rows = [row(Orders, at % users, f"sku-{at}", float(at), time_us) for time_us, at in times]
    return [fact for _, fact in case("bench", [dataset], rows).facts]


def refuse(failed: Sequence[FailedRow]) -> None:
    """Stop: no row of this bench can fail."""
    raise SystemExit(f"{len(failed)} rows failed")


def rate(dataset: type, count: int, *, users: int, batch: int) -> float:
    """Return rows per CPU-second of a step."""
    blueprint = compile_blueprint(definitions([Orders, Users, dataset], []))
    (spec,) = (a.spec for a in blueprint.assets if isinstance(a.spec, PipelineJobSpec))
    tree = tree_of(spec, StepContext(calls=InProcessCalls(), title="bench", set_apart=refuse))
    emitter = RowEmitter.of(spec, tree.schema)
    reads = {given.dataset for given in spec.inputs}
    main = "Orders" if "Orders" in reads else "Users"
    facts = facts_of(Orders if main == "Orders" else Users, count, users=users)
    with tempfile.TemporaryDirectory() as directory:
        state = JobState(Path(directory) / "state", epoch=1)

        def take(dataset: str, arrived: Sequence[Fact]) -> int:
            def work(changed: StateBatch) -> int:
                return len(emitter.records(changed, tree.changes(changed, {dataset: arrived})))

            return state.run(work)

        if reads == {"Orders", "Users"}:
            take("Users", facts_of(Users, users, users=users))
        began = time.process_time()
        emitted = sum(take(main, facts[start : start + batch]) for start in range(0, count, batch))
        spent = time.process_time() - began
        state.close()
    if not emitted:
        raise SystemExit("the step emitted nothing")
    return count / spent


def main() -> None:
    """Measure all steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=20)
    args = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for name, dataset in STEPS.items():
        figures[name] = {
            f"{users:,} users": rate(dataset, args.rows, users=users, batch=args.batch)
            for users in (1_000, 1)
        }
        told = (f"{value:10,.0f} with {users}" for users, value in figures[name].items())
        print(f"{name:24}", *told)
    report_result("stateful", figures)


if __name__ == "__main__":
    main()
