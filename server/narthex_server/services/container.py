"""The shared objects of a server process: connections, caches, counters."""

import attrs

from narthex._runtime.workers import Compartments
from narthex.settings import Settings
from narthex_ledger import Ledger, SealedSecrets, Sealer, TenantId
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.recovery import Recovery
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.idempotency import IdempotencyKeyStore
from narthex_server.services.logged_queries import QueryLog
from narthex_server.services.meters import Meters
from narthex_server.services.shared_sources import SharedSources
from narthex_stores import LogProducer, LogReader


@attrs.frozen(kw_only=True)
class Services:
    """One of each, shared by all requests."""

    settings: Settings
    ledger: Ledger
    tenant: TenantId
    producer: LogProducer
    answers: QueryLog
    once: IdempotencyKeyStore
    reader: LogReader
    snapshots: SnapshotCache
    shared: SharedSources
    executor: Executor
    collector: Collector
    auditor: Auditor
    recovery: Recovery
    airflow: Airflow
    workers: Compartments
    meters: Meters
    sealer: Sealer

    @property
    def secrets(self) -> SealedSecrets:
        """The secrets that definitions name."""
        return SealedSecrets(self.ledger, self.tenant, self.sealer)
