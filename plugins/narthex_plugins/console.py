"""The console inside Airflow: the platform's own pages and their JSON, behind Airflow's login.

A person who may read the DAG `commit` in Airflow may read the pages. Each call carries the service
token of this process, which never reaches the browser, and uses only the right to read
definitions.
"""

import html
from typing import ClassVar, Final
from urllib.parse import quote
from uuid import UUID

import httpx
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.configuration import conf
from airflow.models.xcom import XComModel
from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from typing_extensions import override

from narthex_plugins.approvals import PersonApproves
from narthex_plugins.commit_compilation import MISTAKES
from narthex_plugins.operators import (
    AuditOperator,
    BackfillOperator,
    CaughtUpOperator,
    StepOperator,
    key_of,
)
from narthex_plugins.platform_client import (
    StepDeferredError,
    StepRefused,
    platform,
    platform_of_loop,
)

PREFIX: Final = "/narthex"
DAG: Final = "commit"
"""The DAG whose runs are commits: the id of a run is the commit's."""

ROLLBACK: Final = "rollback"
"""The DAG whose runs each make a commit, by a request whose key names the run."""

PAGES: Final = {
    "auditor": "assets",
    "branch_delete": "branches",
    "collector": "assets",
    "drift": "drift",
    "prove": "datasets",
    "quality_audit": "audits",
    "reconcile": "waiting",
}
"""The pages that show what the runs of other DAGs do."""

NARROWED: Final = {"X-Narthex-Scope": "read:definitions", "X-Narthex-Embedded": "airflow"}
"""The headers of calls for people whom Airflow has signed in: they may only read definitions."""

SAID_ON: Final = (
    "content-type",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "cache-control",
)
"""The headers of the platform's answers that are passed on to browsers."""

_REFUSED: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>No commit</title>
<link rel="stylesheet" href="../../console/console.css"></head>
<body><main>
<h1>This run has made no commit</h1>
<p>Its task <code>compile</code> refused the project; the log of the task has the same text.</p>
<pre>{mistakes}</pre>
</main></body>
</html>
"""
_STRICT: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""The headers of the page with mistakes, whose text is an author's."""

app = FastAPI(
    title="Narthex",
    dependencies=[Depends(requires_access_dag("GET", param_dag_id=DAG))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.get("/console")
@app.get("/console/{path:path}")
async def page(request: Request, path: str = "") -> Response:
    """Return a page of the console, as the platform renders it."""
    return await _forward(f"console/{path}".rstrip("/"), request)


@app.get("/api/v1/{path:path}")
async def data(path: str, request: Request) -> Response:
    """Return the JSON of a page: only reads, and only of definitions."""
    return await _forward(f"api/v1/{path}", request)


@app.get("/runs/{dag_id}/{run_id}")
def run(dag_id: str, run_id: str) -> Response:
    """Redirect to the page of the commit that a run carries out or makes, or to a list.

    A run whose project has mistakes has made no commit: the page has the mistakes.
    """
    commit_id = _commit_of(dag_id, run_id)
    mistakes = _mistakes(run_id) if dag_id == DAG and not commit_id else ""
    if mistakes:
        return HTMLResponse(_REFUSED.format(mistakes=html.escape(mistakes)), headers=_STRICT)
    page = f"commits/{commit_id}" if commit_id else PAGES.get(dag_id, "commits")
    return RedirectResponse(f"../../console/{page}?live=1", status_code=303)


def _commit_of(dag_id: str, run_id: str) -> str:
    """Return the commit that a run has made; empty if it has made none, or on no answer."""
    if dag_id == DAG and _is_id(run_id):
        return run_id
    try:
        match dag_id:
            case _ if dag_id == DAG:
                return str((platform().commit_of_run(run_id) or {}).get("commit_id", ""))
            case _ if dag_id == ROLLBACK:
                found = platform().read("commits", query={"key": key_of(run_id)})
            case _:
                return ""
    except (StepDeferredError, StepRefused):
        return ""
    match found:
        case {"commits": [{"commit_id": str(commit_id)}]}:
            return commit_id
        case _:
            return ""


def _mistakes(run_id: str) -> str:
    """Return the mistakes that the task `compile` of a run has found; empty if there are none."""
    query = XComModel.get_many(run_id=run_id, key=MISTAKES, task_ids="compile", dag_ids=DAG)
    with create_session() as session:
        found = session.scalars(query).first()
        return "" if found is None else str(XComModel.deserialize_value(found))


class ConsoleLink(BaseOperatorLink):
    """A link from each task to the page of its commit, or of what it does."""

    name = "Console"
    operators: ClassVar[list[type[BaseOperator]]] = [
        StepOperator,
        AuditOperator,
        BackfillOperator,
        CaughtUpOperator,
        PersonApproves,
    ]

    @override
    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return f"{_base()}/runs/{quote(ti_key.dag_id)}/{quote(ti_key.run_id)}"


class DataDocsLink(BaseOperatorLink):
    """A link from each task of an audit to the Data Docs, with the results of all audits."""

    name = "Data Docs"
    operators: ClassVar[list[type[BaseOperator]]] = [AuditOperator]

    @override
    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return f"{_base()}/console/data-docs/index.html"


def _base() -> str:
    """Return the address of this plugin's pages."""
    return f"{conf.get('api', 'base_url', fallback='').rstrip('/')}{PREFIX}"


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


async def _forward(path: str, request: Request) -> Response:
    found = await platform_of_loop()
    headers = found.headers | NARROWED
    async with httpx.AsyncClient(headers=headers, timeout=30.0) as client:
        try:
            answer = await client.get(
                f"{found.server_url}/{quote(path)}", params=dict(request.query_params)
            )
        except httpx.TransportError as error:
            return Response(
                f"the server does not answer: {error}", status_code=502, media_type="text/plain"
            )
    said = {name: answer.headers[name] for name in SAID_ON if name in answer.headers}
    return Response(answer.content, status_code=answer.status_code, headers=said)
