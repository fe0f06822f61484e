"""The console inside Airflow: the platform's own page and its reads, behind Airflow's login.

Each call is made with the service token of this process, which never reaches the browser.
"""

import httpx
from airflow.api_fastapi.core_api.security import requires_authenticated
from fastapi import Depends, FastAPI, Request, Response

from narthex_plugins.platform import platform

PREFIX = "/narthex"

app = FastAPI(title="Narthex", dependencies=[Depends(requires_authenticated())])


@app.get("/console")
async def page(request: Request) -> Response:
    """The console's page, as the platform serves it."""
    return await _forward("console", request)


@app.get("/api/v1/{path:path}")
async def data(path: str, request: Request) -> Response:
    """What the page shows: reads only."""
    return await _forward(f"api/v1/{path}", request)


async def _forward(path: str, request: Request) -> Response:
    found = platform()
    async with httpx.AsyncClient(headers=found.headers, timeout=30.0) as client:
        try:
            answer = await client.get(
                f"{found.settings.server_url}/{path}", params=dict(request.query_params)
            )
        except httpx.TransportError as error:
            return Response(f"the server does not answer: {error}", status_code=502)
    return Response(
        answer.content,
        status_code=answer.status_code,
        media_type=answer.headers.get("content-type", "application/json"),
    )
