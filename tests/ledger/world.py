"""A small world for ledger tests: two datasets, stores that are sets of names, one branch."""

import datetime as dt
import hashlib
import itertools
from typing import Self
from uuid import UUID

import attrs

from narthex._ir.assets import (
    AssetBlueprint,
    AssetKind,
    AssetRef,
    AssetSpec,
    Blueprint,
    CheckpointSpec,
    FeedSpec,
    IndexSpec,
    LogShape,
    LogSpec,
    Need,
    SinkJobSpec,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
    Trigger,
)
from narthex._ir.entities import Cdc, Csv, Files, Sink, Source, WebhookEndpoint
from narthex._ir.schema import Schema
from narthex.connectors import Kafka
from narthex_ledger import (
    ROW_KINDS,
    BackfillPolicy,
    BranchId,
    CommitPlan,
    CommitRequest,
    Fence,
    Go,
    Ledger,
    Phase,
    PromotionPolicy,
    Rules,
    ShardReport,
    SlotLease,
    TenantId,
    Waiting,
)

LOG = LogSpec(shape=LogShape.ROWS, keys=(), values=(), time_field="at")
SUPERVISOR = "supervisor-1"
TIMEOUT_S = 5.0
LATER = dt.timedelta(minutes=2)
"""Longer than every lease, grace and settling time."""


def fingerprint(meaning: str) -> bytes:
    return hashlib.sha256(meaning.encode()).digest()


def name_of(asset: AssetBlueprint, incarnation: int) -> str:
    return f"nx_{asset.kind.value}_{asset.fingerprint.hex()[:20]}_i{incarnation}"


def asset(
    kind: AssetKind, name: str, spec: AssetSpec, /, **needs: AssetBlueprint
) -> AssetBlueprint:
    return AssetBlueprint(
        kind=kind,
        fp_version=1,
        fingerprint=fingerprint(f"{kind.value}:{name}"),
        spec=spec,
        needs=tuple(Need(role, AssetRef(n.kind, n.fingerprint)) for role, n in needs.items()),
        paths=(f"{kind.value}/{name}",),
        label=f"{kind.value} {name}",
    )


def topic(name: str, partitions: int = 1) -> AssetBlueprint:
    role = TopicRole.DATASET
    return asset(AssetKind.KAFKA_TOPIC, name, TopicSpec(role=role, partitions=partitions, log=LOG))


def webhook_dataset(name: str, partitions: int = 1) -> tuple[AssetBlueprint, ...]:
    """Ingest topic, log, checkpoint, source job, index and its feed."""
    ingest, log = topic(f"{name}_ingest"), topic(name, partitions)
    return ingest, log, *_consumers(name, log, WebhookEndpoint(webhook="w", endpoint=name), ingest)


def erasable(name: str) -> tuple[AssetBlueprint, ...]:
    """As `webhook_dataset`, with the paths and roles that an erasure looks for."""
    ingest, log, *others = webhook_dataset(name)
    spec = TopicSpec(role=TopicRole.INGEST, partitions=1, identity=f"w/{name}")
    return (
        attrs.evolve(ingest, spec=spec),
        attrs.evolve(log, paths=(f"dataset/{name}/log",)),
        *others,
    )


def sink(name: str, log: AssetBlueprint) -> tuple[AssetBlueprint, ...]:
    """The job that writes the rows of a log to a topic, and its checkpoint."""
    checkpoint = asset(AssetKind.CHECKPOINT, f"{name}_sink", CheckpointSpec(job=f"{name}_sink"))
    spec = SinkJobSpec(
        dataset=name,
        sink=Sink(target=Kafka("bus", "").topic(f"{name}_out"), cdc=Cdc.DEBEZIUM),
        schema=Schema(fields=()),
        log=LOG,
        voidable=False,
        trigger=Trigger.STAGE,
        reason="",
    )
    needs = {f"input:{name}": log, "checkpoint": checkpoint}
    return checkpoint, asset(AssetKind.STREAM_JOB, f"{name}_sink", spec, **needs)


def files_dataset(name: str) -> tuple[AssetBlueprint, ...]:
    """As `webhook_dataset`, from files, which are read once: its job is bounded."""
    log = topic(name)
    return log, *_consumers(name, log, Files(name=name, path="x.csv", format=Csv()), None)


def _consumers(
    name: str,
    log: AssetBlueprint,
    connector: WebhookEndpoint | Files,
    ingest: AssetBlueprint | None,
) -> tuple[AssetBlueprint, ...]:
    checkpoint = asset(AssetKind.CHECKPOINT, name, CheckpointSpec(job=name))
    inputs = {} if ingest is None else {"input": ingest}
    spec = SourceJobSpec(
        dataset=name,
        source_id=f"source:{name}",
        source=Source(connector=connector, disorder_us=0, cdc=Cdc.APPEND),
        schema=Schema(fields=()),
        log=LOG,
        trigger=Trigger.BOUNDED if ingest is None else Trigger.REAL_TIME,
        reason="",
    )
    job = asset(AssetKind.STREAM_JOB, name, spec, output=log, checkpoint=checkpoint, **inputs)
    partitions = log.spec.partitions if isinstance(log.spec, TopicSpec) else 1
    index = asset(AssetKind.INDEX, name, IndexSpec(log=LOG, shards=partitions))
    feed = asset(AssetKind.INDEX_FEED, name, FeedSpec(dataset=name, log=LOG), log=log, index=index)
    return checkpoint, job, index, feed


def blueprint(*datasets: tuple[AssetBlueprint, ...]) -> Blueprint:
    return Blueprint(assets=tuple(itertools.chain(*datasets)), datasets=())


ORDERS = webhook_dataset("orders")
FLIGHTS = files_dataset("flights")


@attrs.frozen(kw_only=True)
class World:
    """A ledger, a branch, and the names that exist outside."""

    dsn: str
    ledger: Ledger
    tenant: TenantId
    main: BranchId
    outside: set[str]
    opened: list[Ledger]

    @classmethod
    def open(cls, dsn: str) -> Self:
        ledger = Ledger(dsn)
        ledger.installation.create("abcd1234", slots=4)
        tenant = ledger.installation.ensure_tenant("acme")
        main = ledger.branches.ensure(tenant, "main")
        return cls(dsn=dsn, ledger=ledger, tenant=tenant, main=main, outside=set(), opened=[ledger])

    def close(self) -> None:
        for ledger in self.opened:
            ledger.close()

    def at(self, clock_shift: dt.timedelta, *, rules: Rules | None = None) -> Ledger:
        """Open the same ledger as somebody whose database clock is later."""
        later = Ledger(self.dsn, clock_shift=clock_shift, rules=rules)
        self.opened.append(later)
        return later

    def request(  # noqa: PLR0913 - a request has these parts
        self,
        number: int,
        *,
        branch: BranchId | None = None,
        key: str = "",
        expected: bytes | None = None,
        base_seq: int | None = None,
        backfill: BackfillPolicy = BackfillPolicy.ALLOWED,
        promotion: PromotionPolicy = PromotionPolicy.WHEN_READY,
    ) -> CommitRequest:
        return CommitRequest(
            commit_id=UUID(int=number),
            tenant=self.tenant,
            branch=self.main if branch is None else branch,
            idempotency_key=key or f"key-of-commit-{number}",
            request_sha256=fingerprint(f"request {number}"),
            actor="ada",
            bundle=b"features",
            expected_plan_sha256=expected,
            base_seq=base_seq,
            backfill=backfill,
            promotion=promotion,
        )

    def claimed(self, request: CommitRequest) -> tuple[UUID, Fence]:
        self.ledger.commits.accept(request)
        return request.commit_id, self.ledger.commits.claim(request.commit_id, "executor-1")

    def plan(self, commit_id: UUID, fence: Fence, wanted: Blueprint) -> CommitPlan:
        return self.ledger.commits.plan(commit_id, fence, blueprint=wanted, name_of=name_of)

    def planned(self, request: CommitRequest, wanted: Blueprint) -> tuple[UUID, Fence]:
        commit_id, fence = self.claimed(request)
        self.plan(commit_id, fence, wanted)
        return commit_id, fence

    def create(self, commit_id: UUID, fence: Fence) -> None:
        """Create what is not live, in rounds, each asset after its needs."""
        pending = [found.asset_id for found in self.ledger.commits.get(commit_id).assets]
        while pending:
            left = [a for a in pending if not self.create_one(a, commit_id, fence)]
            assert len(left) < len(pending), f"nothing can be created of {left}"
            pending = left

    def create_one(self, asset_id: int, commit_id: UUID, fence: Fence) -> bool:
        kinds = {a.asset_id: a.kind for a in self.ledger.commits.get(commit_id).assets}
        if kinds[asset_id] in ROW_KINDS:
            return not isinstance(
                self.ledger.assets.create_row(asset_id, commit_id, fence), Waiting
            )
        turn = self.ledger.assets.intend(asset_id, commit_id, fence, call_timeout_s=TIMEOUT_S)
        if isinstance(turn, Go):
            self.outside.add(turn.asset.physical_name)
            self.ledger.assets.created(asset_id, commit_id, fence, external_id=f"x{asset_id}")
        return not isinstance(turn, Waiting)

    def committed(self, request: CommitRequest, wanted: Blueprint) -> tuple[UUID, Fence]:
        commit_id, fence = self.planned(request, wanted)
        self.create(commit_id, fence)
        self.ledger.commits.ready(commit_id, fence)
        self.ledger.commits.commit_point(commit_id, fence)
        return commit_id, fence

    def backfill(self, commit_id: UUID) -> None:
        for job in self.ledger.jobs.all():
            if job.needs_backfill and job.backfilled_at is None:
                epoch = self.ledger.backfills.claim(commit_id, job.asset.asset_id)
                assert epoch is not None
                self.ledger.backfills.finish(job.asset.asset_id, epoch, offsets={"t": {"0": 7}})

    def catch_up(self, *, times: int = 2) -> tuple[SlotLease, ...]:
        """Hold every slot, and report all running jobs as caught up."""
        leases = self.ledger.slots.claim(SUPERVISOR, range(4))
        epochs = {lease.slot: lease.epoch for lease in leases}
        for _ in range(times):
            refused = self.ledger.jobs.report(
                [
                    ShardReport(
                        asset_id=job.asset.asset_id,
                        generation=job.generation,
                        shard=shard.shard,
                        epoch=epochs[shard.slot],
                        phase=Phase.CAUGHT_UP if job.desired == "running" else Phase.STOPPED,
                        lag_ms=3,
                    )
                    for job in self.ledger.jobs.all()
                    for shard in job.shards
                ]
            )
            assert refused == ()
        return leases

    def serving(self, request: CommitRequest, wanted: Blueprint) -> tuple[UUID, Fence]:
        """Take a commit all the way to its readers."""
        commit_id, fence = self.committed(request, wanted)
        self.backfill(commit_id)
        self.ledger.jobs.start(commit_id, fence)
        self.catch_up()
        evidence = self.ledger.promotions.readiness(commit_id).evidence
        self.ledger.promotions.promote(commit_id, fence, evidence=evidence)
        self.ledger.commits.finalize(commit_id, fence)
        return commit_id, fence

    def states(self, commit_id: UUID) -> dict[str, str]:
        return {
            found.label: found.state.value for found in self.ledger.commits.get(commit_id).assets
        }

    def collect(self, ledger: Ledger) -> None:
        """Destroy all that may be destroyed, as one collector, until nothing moves."""
        for asset_id in ledger.gc.unpinned():
            ledger.gc.mark(asset_id)
        moved = True
        while moved:
            moved = sum(self._destroy(ledger, a) for a in ledger.gc.due_destroys()) > 0

    def _destroy(self, ledger: Ledger, asset_id: int) -> bool:
        match ledger.gc.destroy_intent(asset_id, "collector-1"):
            case order if hasattr(order, "fence"):
                ledger.gc.destroy_call(asset_id, order.fence, call_timeout_s=TIMEOUT_S)
                self.outside.discard(order.physical_name)
                ledger.gc.destroyed(asset_id, order.fence)
                return True
            case _:
                return False
