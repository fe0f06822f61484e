"""Error responses: one JSON shape, the right status, and never a traceback."""

from collections.abc import Mapping
from typing import Any, Final, NotRequired

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from narthex.errors import DefinitionErrors, NarthexError, SandboxUnavailable, UserCodeError
from narthex_ledger import (
    Contended,
    LedgerError,
    LedgerRefused,
    LedgerUnreachable,
    NotFound,
    OutcomeUnknown,
    QualityBroken,
    TooManyOfflineQueries,
)
from narthex_server.errors import (
    Conflicting,
    DeadlineExceeded,
    EndpointHeld,
    Forbidden,
    Gone,
    IndexUnavailable,
    InvalidRequest,
    Missing,
    NotAuthenticated,
    QueryTooLarge,
    ServerError,
    SignInUnavailable,
    SnapshotTooOld,
    TooLarge,
    TooManyAttempts,
    TooManyRequests,
)
from narthex_stores import StoreError

log = structlog.get_logger()

FAILED: Final = 500
STATUSES: Final[Mapping[type[Exception], int]] = {
    InvalidRequest: 400,
    NotAuthenticated: 401,
    Forbidden: 403,
    Missing: 404,
    Conflicting: 409,
    Gone: 410,
    TooLarge: 413,
    TooManyAttempts: 429,
    TooManyRequests: 429,
    EndpointHeld: 503,
    SignInUnavailable: 503,
    SnapshotTooOld: 503,
    DeadlineExceeded: 504,
    IndexUnavailable: 503,
    RequestValidationError: 400,
    DefinitionErrors: 400,
    UserCodeError: 422,
    SandboxUnavailable: 503,
    NarthexError: 400,
    NotFound: 404,
    QualityBroken: 410,
    TooManyOfflineQueries: 429,
    LedgerRefused: 409,
    Contended: 503,
    OutcomeUnknown: 503,
    LedgerUnreachable: 503,
    StoreError: 503,
}
"""The HTTP status of each error; of the classes that an error belongs to, the first counts."""


class ErrorEntry(TypedDict):
    """A mistake in definitions, and where it is."""

    code: str
    message: str
    file: str
    line: int
    hint: str


class ErrorBody(TypedDict):
    """An error.

    Attributes:
        err_msg: What is wrong, for a person.
        errors: The single mistakes.
        detail: More about the refusal, for programs.
    """

    err_msg: str
    errors: NotRequired[list[str | ErrorEntry]]
    detail: NotRequired[JsonValue]


def raises(*errors: type[Exception]) -> dict[int | str, dict[str, Any]]:
    """Document errors that a route raises in addition to those that any such route raises."""
    return {STATUSES[error]: {"model": ErrorBody} for error in errors}


_ROOTS: Final = (
    HTTPException,
    RequestValidationError,
    ServerError,
    DefinitionErrors,
    NarthexError,
    LedgerError,
    StoreError,
)


def install(app: FastAPI) -> None:
    """Answer every error as `{"err_msg": …}`; the status shows whether the client is at fault."""
    for root in _ROOTS:
        app.add_exception_handler(root, _handle)
    app.add_exception_handler(Exception, _fail)


async def _handle(request: Request, error: Exception) -> JSONResponse:
    del request
    return error_response(error)


async def _fail(request: Request, error: Exception) -> JSONResponse:
    """Answer an error that nobody foresaw; Starlette raises it again, so that it is logged."""
    del request, error
    body = {"err_msg": "the server failed; its log has the reason"}
    return JSONResponse(body, status_code=FAILED)


def error_response(error: Exception) -> JSONResponse:
    """Return the HTTP response for one of our errors; any other error is raised again."""
    if not isinstance(error, _ROOTS):
        raise error
    if isinstance(error, HTTPException):  # Starlette's own: no such route, or invalid JSON
        body = {"err_msg": str(error.detail), "detail": error.detail}
        return JSONResponse(body, status_code=error.status_code, headers=error.headers)
    status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), FAILED)
    if status == FAILED:
        log.error("ledger_failed", error=str(error))
    return JSONResponse({"err_msg": message_of(error)} | _details(error), status_code=status)


def message_of(error: Exception) -> str:
    """Return the message of an error for a person."""
    if not isinstance(error, RequestValidationError):
        return str(error)
    # Report the location and the reason, never the value: it may be a secret.
    return "\n".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())


def _details(error: Exception) -> dict[str, object]:
    match error:
        case QueryTooLarge():
            return {"detail": {"greatest_rows": error.greatest_rows}}
        case ServerError():
            return {"errors": list(error.errors)} if error.errors else {}
        case UserCodeError():
            return {}
        case DefinitionErrors():
            return {"errors": [mistake.plain() for mistake in error.exceptions_flat()]}
        case NarthexError():
            return {"errors": [error.plain()]}
        case LedgerError():
            return {"detail": error.detail}
        case _:
            return {}
