"""Measure what the ledger costs when there are many datasets; print one line of JSON.

    python -m bench.metadata [--datasets 100 1000 10000]

For each number of datasets, a new database on a PostgreSQL that the bench starts has a commit of
that many keyed datasets (ten assets each), signed as an installation signs them. Stores are in
memory, so only the ledger's work counts. A hundred assets of a commit are created as a deployment
creates them; the rows that this leaves are then written for all others at once.

Each line of the table has the wall time, the CPU time of this process, and the number of SQL
statements of one operation. Lines marked with * repeat for ever: in a supervisor or in the server.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import attrs
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.branches import STORES, webhooks
from bench.figures import load_average, report_result, show
from bench.running import say
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.entities import Definitions
from narthex._runtime.environments import PackageSource
from narthex_ledger import (
    AssetState,
    BranchRequest,
    CommitRequest,
    Fence,
    Ledger,
    Phase,
    Rules,
    ShardReport,
    Signer,
    TenantId,
    migrate,
)
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.quality_gates import QualityGates
from narthex_stack.servers.local_servers import postgres_server
from narthex_stores import InMemoryAdapter

_T = TypeVar("_T")

SLOTS = 64
SUPERVISORS = 8
"""Each holds this fraction of the slots."""
SAMPLE = 100
"""How many assets of a commit are created one by one."""

CREATED = """
UPDATE asset SET state = 'creating' WHERE state = 'planned';
UPDATE asset SET state = 'live', external_id = 'x', live_at = now() WHERE state = 'creating';
UPDATE create_ledger SET status = 'DONE', external_id = 'x', intent_at = now(), done_at = now()
  WHERE status = 'RESERVED';
INSERT INTO job(asset_id, tenant_id, slot_space, shard_count, desired, spec_sha256)
  SELECT asset_id, tenant_id, 'default', 1, 'stopped', spec_sha256 FROM asset
  WHERE kind IN ('stream_job', 'index_feed', 'history_feed')
    AND asset_id NOT IN (SELECT asset_id FROM job);
INSERT INTO job_shard(asset_id, shard, slot_space, slot)
  SELECT asset_id, 0, 'default', asset_id % (SELECT count(*) FROM slot_lease) FROM job
  WHERE asset_id NOT IN (SELECT asset_id FROM job_shard);
ANALYZE;
"""
"""The rows that the creation of all planned assets leaves."""

PERIODIC_LIMIT_S = 1.0
"""The time that an operation may take that repeats for ever."""


@attrs.frozen
class Cost:
    """The cost of one operation.

    Attributes:
        is_periodic: Whether it repeats for ever, with nothing to do.
    """

    what: str
    seconds: float
    cpu_s: float
    statements: int
    is_periodic: bool


@attrs.define
class Meter:
    """Measures operations, and counts the statements that this process sends."""

    costs: list[Cost] = attrs.field(factory=list)
    _statements: int = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count every statement of every engine of SQLAlchemy while the block runs."""

        def count(*_: object) -> None:
            self._statements += 1

        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        try:
            yield
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", count)

    def time(self, what: str, work: Callable[[], _T], *, is_periodic: bool = False) -> _T:
        """Run an operation once and note its cost."""
        statements, began, cpu = self._statements, time.perf_counter(), time.process_time()
        result = work()
        cost = Cost(
            what,
            seconds=time.perf_counter() - began,
            cpu_s=time.process_time() - cpu,
            statements=self._statements - statements,
            is_periodic=is_periodic,
        )
        self.costs.append(cost)
        say(f"  {what}: {cost.seconds:.3f} s, {cost.cpu_s:.3f} CPU, {cost.statements} statements")
        return result


@attrs.frozen(kw_only=True)
class Installation:
    """A ledger with one branch, and the server's parts that drive it."""

    dsn: str
    ledger: Ledger
    tenant: TenantId
    executor: Executor
    collector: Collector

    def accept(self, number: int) -> tuple[UUID, Fence]:
        """Queue and claim a commit on `main`."""
        commit_id = UUID(int=number)
        self.ledger.commits.accept(
            CommitRequest(
                commit_id=commit_id,
                tenant=self.tenant,
                branch=self.ledger.branches.ensure(self.tenant, "main"),
                idempotency_key=f"commit-number-{number}",
                request_sha256=hashlib.sha256(str(number).encode()).digest(),
                actor="bench",
                bundle=b"",
                deadline_s=86_400,
            )
        )
        return commit_id, self.ledger.commits.claim(commit_id, self.executor.owner)

    def branch_request(self, number: int, name: str) -> BranchRequest:
        """Return a request that changes a branch."""
        return BranchRequest(
            commit_id=UUID(int=number),
            tenant=self.tenant,
            name=name,
            idempotency_key=f"change-number-{number}",
            request_sha256=hashlib.sha256(str(number).encode()).digest(),
            actor="bench",
        )


def install(dsn: str) -> Installation:
    """Make an installation with a signed ledger and stores in memory."""
    migrate(dsn)
    # A first commit of many datasets takes longer than leases usually last.
    rules = Rules(slot_lease_s=86_400.0, commit_lease_s=86_400.0)
    ledger = Ledger(dsn, rules=rules, signer=Signer(Ed25519PrivateKey.generate()))
    ledger.installation.create("bench000", slots=SLOTS)
    adapters = {kind: InMemoryAdapter(kind) for kind in STORES}
    return Installation(
        dsn=dsn,
        ledger=ledger,
        tenant=ledger.installation.ensure_tenant("bench"),
        executor=Executor(
            ledger=ledger,
            adapters=adapters,
            install_id="bench000",
            owner="bench",
            gates=QualityGates(
                ledger=ledger, history_dir="/nonexistent", expectations_dir=Path("/nonexistent")
            ),
            diffs=CommitDiffs(ledger=ledger, history_dir="/nonexistent"),
            environments=EnvironmentBuilds(PackageSource(home=Path("/nonexistent"), index="")),
        ),
        collector=Collector(ledger=ledger, adapters=adapters, owner="bench"),
    )


def deploy(installation: Installation, meter: Meter, number: int, definitions: Definitions) -> None:
    """Take a commit to its readers, as Airflow's tasks do, and note the cost of each step."""
    ledger, executor = installation.ledger, installation.executor
    name = "first commit" if number == 1 else "commit that adds one dataset"
    blueprint = meter.time(f"{name}: compile", lambda: compile_blueprint(definitions))
    commit_id, fence = installation.accept(number)
    meter.time(
        f"{name}: plan",
        lambda: ledger.commits.plan(
            commit_id, fence, blueprint=blueprint, name_of=executor.name_of
        ),
    )
    view = meter.time(f"{name}: read it", lambda: ledger.commits.get(commit_id))

    planned = [asset.asset_id for asset in view.assets if asset.state is AssetState.PLANNED]

    def create() -> None:
        for asset_id in planned[:SAMPLE]:
            executor.create(commit_id, asset_id)

    meter.time(f"{name}: create {len(planned[:SAMPLE])} of its assets", create)
    create_rest(installation.dsn)
    meter.time(f"{name}: ready", lambda: executor.ready(commit_id))
    meter.time(f"{name}: commit point", lambda: executor.commit(commit_id))
    meter.time(f"{name}: backfills due", lambda: executor.due_backfills(commit_id))
    meter.time(f"{name}: start jobs", lambda: executor.backfilled(commit_id))
    hold_and_report(ledger)
    readiness = meter.time(f"{name}: readiness", lambda: ledger.promotions.readiness(commit_id))
    if not readiness.ready:
        raise SystemExit(f"not ready: {readiness.waiting_for[:3]}")
    meter.time(f"{name}: promote", lambda: executor.promote(commit_id))


def hold_and_report(ledger: Ledger) -> None:
    """Hold every slot, and report every job twice as caught up."""
    jobs = ledger.jobs.all()
    epochs = {lease.slot: lease.epoch for lease in ledger.slots.claim("bench", range(SLOTS))}
    for _ in range(2):
        reports = [
            ShardReport(
                asset_id=job.asset.asset_id,
                generation=job.generation,
                epoch=epochs[shard.slot],
                phase=Phase.CAUGHT_UP,
                lag_ms=3,
                progress={"rows": 1},
                shard=shard.shard,
            )
            for job in jobs
            for shard in job.shards
        ]
        refused = ledger.jobs.report(reports)
        if refused:
            raise SystemExit(f"{len(refused)} reports were refused")


def create_rest(dsn: str) -> None:
    """Write what the creation of the remaining assets would leave in the ledger."""
    engine = sa.create_engine(dsn)
    with engine.begin() as connection:
        connection.exec_driver_sql(CREATED.replace("%", "%%"))
    engine.dispose()


def measure_steady_state(installation: Installation, meter: Meter) -> None:
    """Note the cost of what supervisors and the server do while nothing changes."""
    ledger = installation.ledger
    meter.time("supervisor: registry version *", ledger.jobs.registry_version, is_periodic=True)
    mine = range(0, SLOTS, SUPERVISORS)
    changes = meter.time("supervisor: first read of its jobs", lambda: ledger.jobs.changes(mine))
    meter.time(
        "supervisor: read changed jobs *",
        lambda: ledger.jobs.changes(mine, since=changes.version),
        is_periodic=True,
    )
    leases = ledger.slots.claim("bench", range(SLOTS))
    meter.time("supervisor: renew *", lambda: ledger.slots.renew("bench", leases), is_periodic=True)
    epochs = {lease.slot: lease.epoch for lease in leases}
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[job.shards[0].slot],
            phase=Phase.CAUGHT_UP,
            progress={"rows": 2},
        )
        for job in changes.changed
    ]
    what = f"supervisor: report {len(reports)} jobs *"
    meter.time(what, lambda: ledger.jobs.report(reports), is_periodic=True)
    head = UUID(int=1)
    meter.time(
        "server: look at the branch *",
        lambda: ledger.branches.get(installation.tenant, "main"),
        is_periodic=True,
    )
    meter.time("server: read the commit", lambda: ledger.commits.get(head))
    meter.time("server: read the manifest", lambda: ledger.manifests.get(head))
    meter.time("server: read all jobs, for metrics *", ledger.jobs.all, is_periodic=True)
    meter.time("collector: sweep *", installation.collector.sweep, is_periodic=True)
    meter.time(
        "collector: collect *", lambda: installation.collector.collect(None), is_periodic=True
    )


def measure_branches(installation: Installation, meter: Meter) -> None:
    """Note the cost of a clone, and of what follows the deletion of its branch."""
    ledger = installation.ledger
    clone = installation.branch_request(1001, "clone")
    meter.time("branch: clone", lambda: ledger.branches.clone(clone, source="main"))
    delete = installation.branch_request(1002, "clone")
    meter.time("branch: delete", lambda: ledger.branches.delete(delete))
    meter.time("collector: sweep after it *", installation.collector.sweep, is_periodic=True)


def measure(count: int, dsn: str) -> tuple[Cost, ...]:
    """Return what each operation costs with that many datasets."""
    say(f"{count} datasets")
    meter = Meter()
    installation = install(dsn)
    try:
        with meter.counting():
            deploy(installation, meter, 1, webhooks(count))
            measure_steady_state(installation, meter)
            deploy(installation, meter, 2, webhooks(count + 1))
            measure_branches(installation, meter)
    finally:
        installation.ledger.close()
    return tuple(meter.costs)


def report(counts: Sequence[int], costs: Sequence[tuple[Cost, ...]]) -> int:
    """Print the table and the line of JSON."""
    names = [[cost.what for cost in column] for column in costs]
    show(
        "seconds, CPU seconds of this process, SQL statements; * repeats for ever",
        ("operation", *(f"{count} datasets" for count in counts)),
        [
            (names[-1][row], *(f"{c.seconds:.2f} {c.cpu_s:.2f} {c.statements:>6,}" for c in cells))
            for row, cells in enumerate(zip(*costs, strict=True))
        ],
    )
    slow = [c.what for c in costs[-1] if c.is_periodic and c.seconds > PERIODIC_LIMIT_S]
    figures = {
        "bench": "metadata",
        "result": "ok",
        "periodic_limit_s": PERIODIC_LIMIT_S,
        "periodic_above_limit": slow,
        "load_average": load_average(),
        "operations": {
            str(count): {
                c.what: {
                    "s": round(c.seconds, 3),
                    "cpu_s": round(c.cpu_s, 3),
                    "statements": c.statements,
                }
                for c in column
            }
            for count, column in zip(counts, costs, strict=True)
        },
    }
    report_result("metadata", figures)
    return 0


def main() -> int:
    """Measure each number of datasets in turn, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, nargs="+", default=[100, 1_000, 10_000])
    counts: list[int] = sorted(parser.parse_args().datasets)
    with tempfile.TemporaryDirectory() as home, postgres_server(Path(home)) as server:
        costs = [measure(count, server.create_database(f"bench{count}")) for count in counts]
    return report(counts, costs)


if __name__ == "__main__":
    raise SystemExit(main())
