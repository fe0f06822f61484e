"""The ASGI application: its routes, closed by default, and the services that they share."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse

from narthex.settings import FULL
from narthex_server import console
from narthex_server.catalog import assets, branch_catalog, lineage
from narthex_server.commits import branches, commit_plans, commits, pending_commits, rollbacks
from narthex_server.data import ingestion, offline_queries, online_queries
from narthex_server.operations import upkeep
from narthex_server.operations.metrics import render_metrics
from narthex_server.operations.request_metrics import Measured
from narthex_server.security import audit_log, secrets, tokens
from narthex_server.security.auth import PrincipalCache, require_asked, require_rights
from narthex_server.security.request_checks import Door
from narthex_server.security.sign_in_attempts import Attempts
from narthex_server.services.container import Services
from narthex_server.web import error_responses, unimplemented

API = "/api/v1"


def make_app(services: Services) -> FastAPI:
    """Build the application around its services; its start also starts the recovery loop."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.recovery.start()
        yield
        services.recovery.stop()
        services.producer.flush()

    app = FastAPI(
        title="Narthex",
        lifespan=lifespan,
        dependencies=[Depends(require_asked)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.services = services
    app.state.principals = PrincipalCache()
    app.state.attempts = Attempts()
    app.state.api = API
    error_responses.install(app)
    for room in (
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
        pending_commits,
        unimplemented,
    ):
        app.include_router(room.router, prefix=API)
    app.include_router(console.router)

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        """Report that the server and its ledger answer, and how authors' code is sandboxed."""
        services.ledger.jobs.registry_version()
        services.workers.end_idle()
        return {"status": "ok", "sandbox": services.workers.weakness or FULL}

    @app.get(f"{API}/metrics", response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Return the metrics of this process and of every job, as its supervisor reports it."""
        return PlainTextResponse(
            render_metrics(services),
            media_type="application/openmetrics-text; version=1.0.0; charset=utf-8",
        )

    app.add_middleware(Door)
    app.add_middleware(Measured, meters=services.meters, api=API)
    require_rights(app, api=API)
    return app
