"""Calls of the REST interface that this server does not answer yet: 501, with the reason.

A client of Fennel asks them too; a clear refusal is better than `not found`.
"""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from narthex.errors import NotYetSupported

router = APIRouter()

NOT_IMPLEMENTED = 501


def _refusal(what: str, hint: str) -> JSONResponse:
    error = NotYetSupported(f"{what} is not supported by this server yet", hint=hint)
    body = {"err_msg": error.render(), "errors": [dict(error.plain())]}
    return JSONResponse(body, status_code=NOT_IMPLEMENTED)


@router.post("/init")
@router.post("/delete")
@router.get("/branch/list")
def branches() -> JSONResponse:
    """Refuse to make, delete or list branches."""
    return _refusal("another branch than `main`", "commit to `main`")


@router.get("/secret/{name}")
@router.post("/secret/{name}")
@router.patch("/secret/{name}")
@router.delete("/secret/{name}")
def secret(name: str) -> JSONResponse:
    """Refuse to keep a secret; its value is read by nobody."""
    return _refusal(f"to keep the secret `{name[:64]}`", "take what code needs as a column")


@router.post("/dataset/{name}/erase")
def erase(name: str) -> JSONResponse:
    """Refuse to erase rows: all that was made of them would have to go too."""
    return _refusal(
        f"to erase rows of `{name[:64]}`", "erase them at the source, then raise the version"
    )


@router.get("/lineage")
def lineage() -> JSONResponse:
    """Refuse to draw what feeds what."""
    return _refusal("lineage", "see `/featuresets` and `/datasets/{name}`")


@router.get("/xray")
def xray() -> JSONResponse:
    """Refuse to tell properties."""
    return _refusal("xray", "see `/datasets`, `/featuresets` and `/jobs`")
