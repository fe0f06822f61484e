"""Error responses: one JSON shape, the right status, and never a traceback."""

from collections.abc import Awaitable, Callable

import structlog
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from narthex.errors import DefinitionErrors, NarthexError, UserCodeError
from narthex_ledger import (
    Contended,
    LedgerError,
    LedgerRefused,
    LedgerUnreachable,
    NotFound,
    OutcomeUnknown,
)
from narthex_stores import StoreError

log = structlog.get_logger()


def install(app: FastAPI) -> None:
    """Answer every error as `{"err_msg": …}`; the status shows whether the client is at fault."""
    for kind, answer in _answers().items():
        app.add_exception_handler(kind, answer)


async def error_response(request: Request, error: Exception) -> JSONResponse:
    """Return the HTTP response for one of our errors; any other error is raised again."""
    answers = _answers()
    for kind in type(error).__mro__:
        if kind in answers:
            return await answers[kind](request, error)
    raise error


def _answers() -> dict[type, Callable[[Request, Exception], Awaitable[JSONResponse]]]:
    return {
        HTTPException: _http,
        RequestValidationError: _invalid,
        UserCodeError: _user_code,
        DefinitionErrors: _mistakes,
        NarthexError: _mistake,
        LedgerError: _ledger,
        StoreError: _store,
    }


async def _http(request: Request, error: Exception) -> JSONResponse:
    del request
    if not isinstance(error, HTTPException):
        raise error
    found: object = error.detail
    body = found if isinstance(found, dict) else {"err_msg": str(found)}
    return JSONResponse(body, status_code=error.status_code)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    del request
    if not isinstance(error, RequestValidationError):
        raise error
    # Report the location and the reason, never the value: it may be a secret.
    told = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return JSONResponse({"err_msg": "\n".join(told)}, status_code=400)


async def _mistakes(request: Request, error: Exception) -> JSONResponse:
    del request
    if not isinstance(error, DefinitionErrors):
        raise error
    found = [mistake.plain() for mistake in error.exceptions_flat()]
    return JSONResponse({"err_msg": str(error), "errors": found}, status_code=400)


async def _mistake(request: Request, error: Exception) -> JSONResponse:
    del request
    found = [error.plain()] if isinstance(error, NarthexError) else []
    return JSONResponse({"err_msg": str(error), "errors": found}, status_code=400)


async def _user_code(request: Request, error: Exception) -> JSONResponse:
    del request
    return JSONResponse({"err_msg": str(error)}, status_code=422)


async def _ledger(request: Request, error: Exception) -> JSONResponse:
    del request
    match error:
        case NotFound():
            status = 404
        case LedgerRefused():
            status = 409
        case Contended() | OutcomeUnknown() | LedgerUnreachable():
            status = 503
        case _:
            log.error("ledger_failed", error=str(error))
            status = 500
    detail = error.detail if isinstance(error, LedgerError) else None
    return JSONResponse({"err_msg": str(error), "detail": detail}, status_code=status)


async def _store(request: Request, error: Exception) -> JSONResponse:
    del request
    return JSONResponse({"err_msg": str(error)}, status_code=503)
