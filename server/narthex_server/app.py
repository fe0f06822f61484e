"""The ASGI application: its routes, closed by default, and the services that they share."""

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from types import ModuleType
from typing import Final, Protocol

import structlog
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from narthex_server import console, fennel_client
from narthex_server.alerts import routes as alerts
from narthex_server.alerts.evaluator import AlertLoop
from narthex_server.catalog import (
    assets,
    branch_catalog,
    connector_metrics,
    connectors,
    definition_code,
    entity_commits,
    lineage,
    search,
    unread,
)
from narthex_server.commits import (
    backfill_progress,
    branches,
    commit_plans,
    commit_steps,
    commits,
    pending_commits,
    rollbacks,
    runs,
)
from narthex_server.data import (
    column_summaries,
    drift,
    erasures,
    feature_summaries,
    ingestion,
    offline_queries,
    row_inspection,
    training_sets,
    value_diffs,
)
from narthex_server.lineage_events.environment import is_configured
from narthex_server.operations import api_document, metric_series, metrics, upkeep
from narthex_server.operations.metric_sampling import MetricSampling
from narthex_server.operations.request_metrics import Measured
from narthex_server.operations.usage_sampling import UsageSampling
from narthex_server.operations.watermark_rounds import WatermarkRounds
from narthex_server.reads import logged_queries, row_progress
from narthex_server.reads import routes as reads
from narthex_server.reads.handler import ReadHandler
from narthex_server.reads.services import ReadServices
from narthex_server.security import audit_log, connections, secrets, tokens
from narthex_server.security.audit_log import AuditLog
from narthex_server.security.audit_log_heads import LogHeads
from narthex_server.security.auth import Authenticator
from narthex_server.security.known_tokens import KnownTokens
from narthex_server.security.request_checks import Door
from narthex_server.security.route_rights import require_requirements
from narthex_server.security.sign_in_attempts import Attempts
from narthex_server.services.container import Services
from narthex_server.sso import routes as sso
from narthex_server.sso.sign_in import SingleSignOn
from narthex_server.tracing import TracedRequests
from narthex_server.web import error_responses
from narthex_server.web.path_names import NamedPaths, PathNames
from narthex_stores import StoreError

log = structlog.get_logger()

API = "/api/v1"
ROUTES: Final[Mapping[str, Sequence[ModuleType]]] = {
    "Rows and features": (
        ingestion,
        reads,
        row_progress,
        logged_queries,
        offline_queries,
        training_sets,
        row_inspection,
        value_diffs,
        erasures,
    ),
    "Drift": (drift, feature_summaries, column_summaries),
    "Commits": (
        commits,
        commit_steps,
        runs,
        backfill_progress,
        commit_plans,
        rollbacks,
        pending_commits,
    ),
    "Branches": (branches,),
    "Catalog": (
        branch_catalog,
        definition_code,
        entity_commits,
        connectors,
        connector_metrics,
        lineage,
        search,
        assets,
        unread,
    ),
    "Administration": (tokens, sso, secrets, connections, audit_log),
    "Operations": (alerts, metrics, metric_series, upkeep, api_document),
}
"""The modules of the API's routes, by the sections of its reference."""


class _Loop(Protocol):
    """Work of the server beside its requests."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End, and wait for the end."""


def make_app(services: Services) -> FastAPI:
    """Build the application around its services; its start also starts its background loops.

    Its end waits for the records of calls, and logs why some were not stored. It also sends the
    spans that are left.
    """
    settings = services.settings
    read_services = _read_services(services)
    follower = read_services.follower()
    control_log = AuditLog(services.ledger, LogHeads(settings.control_log_heads_file))
    loops: tuple[_Loop, ...] = (
        control_log.loop(),
        services.recovery,
        services.eraser.loop(),
        follower,
        AlertLoop(services),
        WatermarkRounds(services.ledger, services.ends.ends).loop(),
        MetricSampling(services, services.ends.ends).loop(),
        UsageSampling(services).loop(),
        *_lineage(services),
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for loop in loops:
            loop.start()
        yield
        for loop in reversed(loops):
            loop.stop()
        try:
            services.producer.flush()
        except StoreError as error:
            # Their callers know it already, and repeat the call.
            log.warning("records_not_stored", error=str(error))
        if services.tracing is not None:
            services.tracing.end()

    authenticator = Authenticator(
        settings=settings,
        ledger=services.ledger,
        sealer=services.sealer,
        tokens=read_services.tokens,
    )
    app = FastAPI(
        title="Narthex",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.services, app.state.authenticator = services, authenticator
    app.state.attempts, app.state.audit_log = Attempts(), control_log
    app.state.single_sign_on = SingleSignOn(
        settings=settings,
        ledger=services.ledger,
        sealer=services.sealer,
        stored_secret=functools.partial(secrets.stored_secret, services),
    )
    error_responses.install(app)
    app.router.routes.extend(make_routes().routes)
    app.add_middleware(Door, authenticator=authenticator)
    app.add_middleware(NamedPaths, names=PathNames.of(settings))
    app.add_middleware(
        Measured,
        meters=services.meters,
        audit_log=control_log,
        api=API,
    )
    app.add_middleware(_reads_first, services=read_services)
    if services.tracing is not None:
        app.add_middleware(TracedRequests, tracing=services.tracing)
    require_requirements(app)
    return app


def _lineage(services: Services) -> tuple[_Loop, ...]:
    if not is_configured(services.settings.home, os.environ):
        return ()
    from narthex_server.lineage_events.loop import LineageLoop  # noqa: PLC0415

    return (LineageLoop(services),)


def _reads_first(app: ASGIApp, *, services: ReadServices) -> ReadHandler:
    """Return the handler of reads in front of an application, which records what it refuses."""
    return ReadHandler(services, otherwise=app)


def _read_services(services: Services) -> ReadServices:
    return ReadServices(
        settings=services.settings,
        ledger=services.ledger,
        tenant=services.tenant,
        tokens=KnownTokens(ledger=services.ledger, settings=services.settings),
        snapshots=services.snapshots,
        shared=services.shared,
        workers=services.workers,
        query_log=services.answers,
        meters=services.meters,
        ends=services.ends,
    )


@functools.cache
def make_routes() -> APIRouter:
    """Return all routes; the applications of a process share them, because services come by call.

    Their forms of requests and answers take longer to build than all else of an application.
    """
    routes = APIRouter()
    # They match only requests of that client, so they precede ours of the same paths.
    routes.include_router(fennel_client.router, prefix=API, include_in_schema=False)
    for tag, modules in ROUTES.items():
        for module in modules:
            routes.include_router(module.router, prefix=API, tags=[tag])
    routes.include_router(metrics.liveness, tags=["Operations"])
    routes.include_router(console.router, include_in_schema=False)
    return routes
