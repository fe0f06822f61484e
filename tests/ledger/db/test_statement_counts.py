"""The number of statements and rows of an operation does not grow faster than its work."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from narthex._ir.assets import AssetBlueprint
from narthex_ledger import Ledger, Phase, ShardReport
from tests.ledger.world import World, blueprint, webhook_dataset

FEW, MANY = 2, 8


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the statements that this process sends while the block runs."""
    sent: list[str] = []

    def collect(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", collect)
    try:
        yield sent
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", collect)


def datasets(prefix: str, count: int) -> tuple[tuple[AssetBlueprint, ...], ...]:
    return tuple(webhook_dataset(f"{prefix}{number}") for number in range(count))


def steps(world: World, number: int, branch: str, count: int) -> dict[str, int]:
    """Deploy that many new datasets and report their jobs; return the statements of each step."""
    ledger = world.ledger
    request = world.request(number, branch=ledger.branches.ensure(world.tenant, branch))
    commit_id, fence = world.claimed(request)
    wanted = blueprint(*datasets(branch, count))
    counts: dict[str, int] = {}
    with statements() as sent:
        world.plan(commit_id, fence, wanted)
        counts["plan"] = len(sent)
    world.create(commit_id, fence)
    with statements() as sent:
        ledger.commits.ready(commit_id, fence)
        ledger.commits.commit_point(commit_id, fence)
        counts["commit point"] = len(sent)
    with statements() as sent:
        ledger.jobs.start(commit_id, fence)
        counts["start"] = len(sent)
    with statements() as sent:
        report_all(ledger)
        counts["report"] = len(sent)
    return counts


def report_all(ledger: Ledger) -> None:
    """Hold every slot, and report every job once."""
    epochs = {lease.slot: lease.epoch for lease in ledger.slots.claim("one", range(4))}
    refused = ledger.jobs.report(
        [
            ShardReport(
                asset_id=job.asset.asset_id,
                generation=job.generation,
                epoch=epochs[job.shards[0].slot],
                phase=Phase.RUNNING,
                progress={"rows": 1},
            )
            for job in ledger.jobs.all()
        ]
    )
    assert refused == ()


def test_a_commit_of_many_datasets_takes_no_more_statements_than_one_of_few(world: World) -> None:
    # The first commit starts feeds and jobs where none run: the second one is compared to a third.
    steps(world, 1, "main", 1)
    few = steps(world, 2, "few", FEW)
    assert steps(world, 3, "many", MANY) == few


def test_a_step_of_a_commit_does_not_read_its_plan(world: World) -> None:
    # A plan grows with the commit's assets, and each asset takes several steps.
    commit_id, fence = world.planned(world.request(1), blueprint(*datasets("a", FEW)))
    assets = world.ledger.commits.get(commit_id).assets
    with statements() as sent:
        for asset in assets:
            world.ledger.commits.claim(commit_id, "executor-1")
            world.ledger.assets.create_failed(asset.asset_id, commit_id, fence, error="none")
        world.ledger.assets.intend(assets[0].asset_id, commit_id, fence, call_timeout_s=1.0)
    assert sent
    assert [s for s in sent if re.search(r"\bdeploy_commit\.(plan|request)\b", s)] == []


def test_a_supervisor_reads_only_the_jobs_of_its_slots_that_changed(world: World) -> None:
    world.serving(world.request(1), blueprint(*datasets("a", MANY)))
    jobs = world.ledger.jobs
    slots = range(2)
    mine = {job.asset.asset_id for job in jobs.all() if job.shards[0].slot in slots}
    first = jobs.changes(slots)
    assert {job.asset.asset_id for job in first.changed} == first.existing == mine
    assert 0 < len(mine) < len(jobs.all())

    world.catch_up()
    assert jobs.changes(slots, since=first.version).changed == ()

    world.serving(world.request(2), blueprint(*datasets("a", MANY - 1)))
    later = jobs.changes(slots, since=first.version)
    assert later.existing == mine
    assert len(later.changed) < len(mine)
