"""Measure how long it takes to clone a branch; print one line of JSON.

    python -m bench.branches [--datasets 25] [--clones 20]

Measures the wall time of the ledger's `clone_branch` on a PostgreSQL that the bench starts: the
median and the slowest. Stores are in memory and count their calls. The target is one second for a
branch of 200 assets, and no call.
"""

import argparse
import hashlib
import statistics
import tempfile
import time
from pathlib import Path
from uuid import UUID

import attrs

from bench.figures import load_average, report_result
from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import AssetKind
from narthex._ir.entities import Cdc, Dataset, Definitions, Index, Source, WebhookEndpoint
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import Datetime, Int
from narthex._runtime.environments import PackageSource
from narthex_ledger import BranchRequest, CommitRequest, Ledger, PromotionPolicy, TenantId, migrate
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.quality_gates import QualityGates
from narthex_stack.servers.local_servers import postgres_server
from narthex_stores import InMemoryAdapter

STORES = (AssetKind.KAFKA_TOPIC, AssetKind.INDEX, AssetKind.HISTORY, AssetKind.CHECKPOINT)
SCHEMA = Schema(
    (
        Field(name="id", type=Int(), role=Role.KEY),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)


@attrs.frozen(kw_only=True)
class Bench:
    """A ledger, and stores that count their calls."""

    ledger: Ledger
    tenant: TenantId
    adapters: dict[AssetKind, InMemoryAdapter]
    executor: Executor

    @property
    def calls(self) -> int:
        """The number of calls of the stores."""
        return sum(len(adapter.calls) for adapter in self.adapters.values())


def webhooks(count: int) -> Definitions:
    """Return `count` keyed datasets, each with its own endpoint and a lookup index."""
    one = Dataset(
        name="D",
        version=1,
        schema=SCHEMA,
        index=Index(online=True, offline=True),
        metadata=Metadata(owner="a@b.co"),
    )
    return Definitions(
        datasets=tuple(
            attrs.evolve(
                one,
                name=f"D{number}",
                sources=(
                    Source(
                        connector=WebhookEndpoint(webhook="w", endpoint=f"e{number}"),
                        disorder_us=0,
                        cdc=Cdc.UPSERT,
                    ),
                ),
            )
            for number in range(count)
        ),
        featuresets=(),
    )


def open_bench(dsn: str) -> Bench:
    """Make an installation with one branch."""
    migrate(dsn)
    ledger = Ledger(dsn)
    ledger.installation.create("bench000")
    adapters = {kind: InMemoryAdapter(kind) for kind in STORES}
    tenant = ledger.installation.ensure_tenant("bench")
    executor = Executor(
        ledger=ledger,
        adapters=adapters,
        install_id="bench000",
        owner="bench",
        gates=QualityGates(
            ledger=ledger, history_dir="/nonexistent", expectations_dir=Path("/nonexistent")
        ),
        diffs=CommitDiffs(ledger=ledger, history_dir="/nonexistent"),
        environments=EnvironmentBuilds(PackageSource(home=Path("/nonexistent"), index="")),
    )
    return Bench(ledger=ledger, tenant=tenant, adapters=adapters, executor=executor)


def deploy(bench: Bench, definitions: Definitions) -> int:
    """Deploy to `main` and promote the commit; return its number of assets."""
    ledger, commit_id = bench.ledger, UUID(int=1)
    ledger.commits.accept(
        CommitRequest(
            commit_id=commit_id,
            tenant=bench.tenant,
            branch=ledger.branches.ensure(bench.tenant, "main"),
            idempotency_key="the-first-commit",
            request_sha256=hashlib.sha256(b"first").digest(),
            actor="bench",
            bundle=b"",
            promotion=PromotionPolicy.NOW,
        )
    )
    fence = ledger.commits.claim(commit_id, "bench")
    ledger.commits.plan(
        commit_id,
        fence,
        blueprint=compile_blueprint(definitions),
        name_of=bench.executor.name_of,
    )
    assets = ledger.commits.get(commit_id).assets
    for asset in assets:
        bench.executor.create(commit_id, asset.asset_id)
    bench.executor.ready(commit_id)
    bench.executor.commit(commit_id)
    ledger.promotions.promote(commit_id, ledger.commits.claim(commit_id, "bench"), evidence=())
    return len(assets)


def clone(bench: Bench, number: int) -> float:
    """Clone `main`; return the seconds that it took."""
    began = time.perf_counter()
    bench.ledger.branches.clone(
        BranchRequest(
            commit_id=UUID(int=100 + number),
            tenant=bench.tenant,
            name=f"clone-{number}",
            idempotency_key=f"clone-number-{number}",
            request_sha256=hashlib.sha256(str(number).encode()).digest(),
            actor="bench",
        ),
        source="main",
    )
    return time.perf_counter() - began


def main() -> int:
    """Measure and print; 1 if a store was called."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=25)
    parser.add_argument("--clones", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, postgres_server(Path(home)) as server:
        bench = open_bench(server.create_database("bench"))
        assets = deploy(bench, webhooks(asked.datasets))
        before = bench.calls
        took = [clone(bench, number) for number in range(asked.clones)]
        calls = bench.calls - before
        bench.ledger.close()
    figures = {
        "bench": "branches",
        "result": "wrong" if calls else "ok",
        "assets": assets,
        "calls": calls,
        "median_s": round(statistics.median(took), 4),
        "slowest_s": round(max(took), 4),
        "target_s": 1.0,
        "load_average": load_average(),
    }
    report_result("branches", figures)
    return 1 if calls else 0


if __name__ == "__main__":
    raise SystemExit(main())
