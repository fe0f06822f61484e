"""The shared objects of a server process: connections, caches, counters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeAlias

import attrs
from fastapi import Depends, Request

from narthex._runtime.workers import Compartments
from narthex.settings import Settings
from narthex_ledger import Ledger, SealedValues, Sealer, TenantId
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.recovery import Recovery
from narthex_server.erasures.erased_rows import BlockedKeys
from narthex_server.erasures.erasing import Eraser
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.commit_comparisons import CommitComparisons
from narthex_server.services.entity_changes import EntityChanges
from narthex_server.services.idempotency import IdempotencyKeyStore
from narthex_server.services.meters import Meters
from narthex_server.services.query_log import QueryLog
from narthex_server.services.record_counts import RecordCounts
from narthex_server.services.served_branches import ServedBranches
from narthex_server.services.shared_sources import SharedSources
from narthex_server.tracing import Tracing
from narthex_stores import EndOffsetReader, LogProducer

Positions: TypeAlias = Mapping[int, int]
"""The next offset by partition."""

EndsOf: TypeAlias = Callable[[Iterable[str]], Mapping[str, Positions]]
"""Reads the end offsets of topics."""


@attrs.frozen(kw_only=True)
class Services:
    """One of each, shared by all requests.

    Attributes:
        ends: Reads the end offsets of topics.
        served: The datasets and jobs of all branches, for alerts and samples.
        tracing: None if this process does not trace.
    """

    settings: Settings
    ledger: Ledger
    tenant: TenantId
    producer: LogProducer
    answers: QueryLog
    once: IdempotencyKeyStore
    record_counts: RecordCounts
    ends: EndOffsetReader
    snapshots: SnapshotCache
    shared: SharedSources
    executor: Executor
    collector: Collector
    auditor: Auditor
    recovery: Recovery
    eraser: Eraser
    blocked_keys: BlockedKeys
    airflow: Airflow
    workers: Compartments
    meters: Meters
    comparisons: CommitComparisons
    entity_changes: EntityChanges
    sealer: Sealer
    tracing: Tracing | None = None
    served: ServedBranches = attrs.field(
        default=attrs.Factory(
            lambda services: ServedBranches(ledger=services.ledger, tenant=services.tenant),
            takes_self=True,
        ),
        init=False,
    )

    def close(self) -> None:
        """End the connections and threads of the process."""
        self.workers.close()
        self.producer.close()
        self.ends.close()
        self.ledger.close()

    @property
    def secrets(self) -> SealedValues:
        """The secrets that definitions name."""
        return SealedValues(self.ledger.secrets, self.tenant, self.sealer)

    @property
    def connections(self) -> SealedValues:
        """The connections that definitions name."""
        return SealedValues(self.ledger.connections, self.tenant, self.sealer)


def services_of(request: Request) -> Services:
    """Return the shared objects of the process that serves a request."""
    services: Services = request.app.state.services
    return services


async def _services(request: Request) -> Services:
    return services_of(request)


async def _ledger(request: Request) -> Ledger:
    return services_of(request).ledger


async def _tenant(request: Request) -> TenantId:
    return services_of(request).tenant


async def _settings(request: Request) -> Settings:
    return services_of(request).settings


async def _snapshots(request: Request) -> SnapshotCache:
    return services_of(request).snapshots


async def _recovery(request: Request) -> Recovery:
    return services_of(request).recovery


async def _secrets(request: Request) -> SealedValues:
    return services_of(request).secrets


async def _connections(request: Request) -> SealedValues:
    return services_of(request).connections


ServicesDep: TypeAlias = Annotated[Services, Depends(_services)]
LedgerDep: TypeAlias = Annotated[Ledger, Depends(_ledger)]
TenantDep: TypeAlias = Annotated[TenantId, Depends(_tenant)]
SettingsDep: TypeAlias = Annotated[Settings, Depends(_settings)]
SnapshotsDep: TypeAlias = Annotated[SnapshotCache, Depends(_snapshots)]
RecoveryDep: TypeAlias = Annotated[Recovery, Depends(_recovery)]
ConnectionsDep: TypeAlias = Annotated[SealedValues, Depends(_connections)]
SecretsDep: TypeAlias = Annotated[SealedValues, Depends(_secrets)]
