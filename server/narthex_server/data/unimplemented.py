"""Routes of the REST interface that are not implemented: 501, with the reason.

A client of Fennel calls them too; a clear refusal is better than `not found`.
"""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from narthex.errors import NotYetSupported
from narthex_server.security.route_rights import Right, requires
from narthex_server.web.error_responses import ErrorBody
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.WRITE_DATA)])

NOT_IMPLEMENTED = 501


def _refusal(what: str, hint: str) -> JSONResponse:
    error = NotYetSupported(f"{what} is not supported by this server yet", hint=hint)
    body = {"err_msg": error.render(), "errors": [dict(error.plain())]}
    return JSONResponse(body, status_code=NOT_IMPLEMENTED)


@router.post(
    "/dataset/{name}/erase",
    status_code=NOT_IMPLEMENTED,
    responses={NOT_IMPLEMENTED: {"model": ErrorBody, "description": "It is not implemented."}},
)
def erase(name: str) -> JSONResponse:
    """Refuse to erase rows: everything derived from them would have to be erased too."""
    return _refusal(
        f"to erase rows of `{name[:64]}`", "erase them at the source, then raise the version"
    )
