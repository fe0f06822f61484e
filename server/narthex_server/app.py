"""The ASGI application: its routes, closed by default, and the services that they share."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter, FastAPI

from narthex_server import console
from narthex_server.catalog import assets, branch_catalog, lineage
from narthex_server.commits import branches, commit_plans, commits, pending_commits, rollbacks
from narthex_server.data import ingestion, offline_queries, online_queries, unimplemented
from narthex_server.operations import metrics, upkeep
from narthex_server.operations.request_metrics import Measured
from narthex_server.security import audit_log, secrets, tokens
from narthex_server.security.audit_log import AuditLog
from narthex_server.security.audit_log_heads import LogHeads
from narthex_server.security.auth import Authenticator
from narthex_server.security.request_checks import Door
from narthex_server.security.route_rights import require_requirements
from narthex_server.security.sign_in_attempts import Attempts
from narthex_server.services.container import Services
from narthex_server.web import error_responses

API = "/api/v1"


def make_app(services: Services) -> FastAPI:
    """Build the application around its services; its start also starts the recovery loop."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.recovery.start()
        yield
        services.recovery.stop()
        services.producer.flush()

    settings = services.settings
    authenticator = Authenticator(settings=settings, ledger=services.ledger, sealer=services.sealer)
    app = FastAPI(
        title="Narthex",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.services = services
    app.state.authenticator = authenticator
    app.state.attempts = Attempts()
    error_responses.install(app)
    app.include_router(make_routes())
    app.add_middleware(Door, authenticator=authenticator)
    app.add_middleware(
        Measured,
        meters=services.meters,
        audit_log=AuditLog(services.ledger, LogHeads(settings.control_log_heads_file)),
        api=API,
    )
    require_requirements(app)
    return app


def make_routes() -> APIRouter:
    """Return all routes, which need no services until they are called."""
    routes = APIRouter()
    for module in (
        assets,
        branches,
        commits,
        commit_plans,
        rollbacks,
        ingestion,
        online_queries,
        offline_queries,
        branch_catalog,
        tokens,
        secrets,
        lineage,
        audit_log,
        upkeep,
        metrics,
        pending_commits,
        unimplemented,
    ):
        routes.include_router(module.router, prefix=API)
    routes.include_router(metrics.liveness)
    routes.include_router(console.router)
    return routes
