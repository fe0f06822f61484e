"""`python -m narthex_server`: the server process, as the platform starts it."""

import functools
import gc
import os
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from narthex._ir import AssetKind
from narthex._runtime.environments import PackageSource
from narthex._runtime.workers import Compartments
from narthex.settings import REDUCED, Settings, load_settings, make_places
from narthex_ledger import TENANT, Ledger, Rules, load_sealer, load_signing, migrate
from narthex_server.app import make_app
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.commit_diffs import CommitDiffs
from narthex_server.deploy.environment_builds import EnvironmentBuilds
from narthex_server.deploy.executor import Executor
from narthex_server.deploy.feature_diffs import logged_rows
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.quality_gates import QualityGates
from narthex_server.deploy.recovery import Recovery
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_server.erasures.erased_rows import BlockedKeys, Digests
from narthex_server.erasures.erased_stores import ErasedStores
from narthex_server.erasures.erasing import Eraser
from narthex_server.refused_starts import REFUSED_STARTS, refused_start
from narthex_server.services.branch_snapshots import SnapshotCache
from narthex_server.services.commit_comparisons import CommitComparisons
from narthex_server.services.compartments import MOST_WORKERS
from narthex_server.services.container import Services
from narthex_server.services.entity_changes import EntityChanges
from narthex_server.services.idempotency import IdempotencyKeyStore
from narthex_server.services.meters import Meters
from narthex_server.services.query_log import QueryLog
from narthex_server.services.record_counts import RecordCounts
from narthex_server.services.shared_sources import SharedSources
from narthex_server.tracing import Tracing, start_tracing
from narthex_server.web.bounded_http import IDLE_S, BoundedHttp, bound_warnings
from narthex_stores import (
    STORE_FORMATS,
    Adapter,
    EndOffsetReader,
    HistoryAdapter,
    LogProducer,
    LogReader,
    SnapshotStore,
    TopicAdapter,
    checkpoint_adapter,
    file_system_of,
    index_store,
    open_log,
    platform_broker,
    storage_options,
)

SERVICE: Final = "narthex-server"
"""The name of this process in traces."""


def make_adapters(settings: Settings) -> dict[AssetKind, Adapter]:
    """Return the adapter of each kind of asset that is stored outside the ledger's database."""
    return {
        AssetKind.KAFKA_TOPIC: TopicAdapter.connect(platform_broker(settings)),
        AssetKind.INDEX: index_store(settings).adapter(),
        AssetKind.HISTORY: HistoryAdapter(
            history_dir=settings.history_dir, storage=storage_options(os.environ)
        ),
        AssetKind.CHECKPOINT: checkpoint_adapter(settings.checkpoint_dir),
    }


def snapshots_of(settings: Settings) -> SnapshotStore | None:
    """Return the snapshots of indexes and job states; None if the installation keeps none."""
    if not settings.snapshot_dir:
        return None
    return SnapshotStore(*file_system_of(settings.snapshot_dir))


def make_services(
    settings: Settings,
    *,
    adapters: Mapping[AssetKind, Adapter] | None = None,
    tracing: Tracing | None = None,
) -> Services:
    """Connect a server process; migrate the ledger, and create the branch `main` if it is new."""
    migrate(settings.ledger_dsn)
    signer, verifier = load_signing(settings.signing_key, settings.verifying_key)
    rules = Rules(most_branches_each=settings.most_branches)
    ledger = Ledger(settings.ledger_dsn, rules=rules, signer=signer, verifier=verifier)
    ledger.installation.record_formats(STORE_FORMATS)
    ledger.installation.create(settings.install_id)
    tenant = ledger.installation.ensure_tenant(TENANT)
    ledger.branches.ensure(tenant, "main")
    bare = make_adapters(settings) if adapters is None else adapters
    marked: dict[AssetKind, Adapter] = {
        kind: OwnedStoreAdapter(
            inner=one, install_id=settings.install_id, identity=ledger.installation.identity
        )
        for kind, one in bare.items()
    }
    owner = f"server:{socket.gethostname()}:{os.getpid()}"
    executor = Executor(
        ledger=ledger,
        adapters=marked,
        install_id=settings.install_id,
        owner=owner,
        gates=QualityGates(
            ledger=ledger,
            history_dir=settings.history_dir,
            expectations_dir=settings.expectations_dir,
        ),
        diffs=CommitDiffs(
            ledger=ledger,
            history_dir=settings.history_dir,
            logged=functools.partial(logged_rows, settings),
        ),
        environments=EnvironmentBuilds(PackageSource.of(settings)),
        tracing=tracing,
    )
    collector = Collector(
        ledger=ledger, adapters=marked, owner=owner, snapshots=snapshots_of(settings)
    )
    auditor = Auditor(ledger=ledger, adapters=marked, install_id=settings.install_id, owner=owner)
    airflow = Airflow(settings)
    recovery = Recovery(
        ledger=ledger,
        executor=executor,
        collector=collector,
        auditor=auditor,
        airflow=airflow,
        settings=settings,
    )
    sealer = load_sealer(settings.secrets_key)
    producer = LogProducer(platform_broker(settings))
    ends = EndOffsetReader(platform_broker(settings))
    return Services(
        settings=settings,
        ledger=ledger,
        tenant=tenant,
        producer=producer,
        answers=QueryLog(
            install_id=settings.install_id, producer=producer, topics=bare[AssetKind.KAFKA_TOPIC]
        ),
        once=IdempotencyKeyStore(ledger, lambda: LogReader(platform_broker(settings))),
        record_counts=RecordCounts(ends),
        ends=ends,
        snapshots=SnapshotCache(ledger, settings, tenant=tenant),
        shared=SharedSources(ledger, tenant=tenant, policy_file=settings.policy_file),
        executor=executor,
        collector=collector,
        auditor=auditor,
        recovery=recovery,
        eraser=Eraser(
            ledger=ledger,
            tenant=tenant,
            install_id=settings.install_id,
            stores=ErasedStores(ledger=ledger, tenant=tenant, settings=settings, sealer=sealer),
            notice=recovery.notice,
            owner=owner,
        ),
        blocked_keys=BlockedKeys(ledger, tenant, Digests.of(sealer)),
        airflow=airflow,
        workers=Compartments(most=MOST_WORKERS, is_reduced=settings.sandbox == REDUCED),
        meters=Meters(),
        comparisons=CommitComparisons(ledger),
        entity_changes=EntityChanges(ledger),
        sealer=sealer,
        tracing=tracing,
    )


def serve() -> None:
    """Serve until the process is stopped.

    Raises:
        SystemExit: The server cannot start; the message has the reason.
    """
    try:
        settings = load_settings()
        make_places(settings)
        open_log(settings)
        services = make_services(settings, tracing=start_tracing(os.environ, service=SERVICE))
    except REFUSED_STARTS as error:
        raise SystemExit(refused_start("the server", error)) from None
    address = urlsplit(settings.server_url)
    services.workers.check()
    app = make_app(services)
    # Imported objects are never freed, so the garbage collector need not scan them.
    gc.freeze()
    bound_warnings()
    uvicorn.run(
        app,
        host=address.hostname or "127.0.0.1",
        port=address.port or 80,
        http=BoundedHttp,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=IDLE_S,
    )
    services.close()


if __name__ == "__main__":
    serve()
