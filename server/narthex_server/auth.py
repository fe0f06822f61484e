"""Who asks: a bearer token on every route but the two that say nothing of anybody's data."""

import hmac

from fastapi import HTTPException, Request

OPEN_PATHS = frozenset({"/healthz", "/console"})
"""Routes that need no token: liveness, and a page without data (it asks for the token itself)."""


def require_token(request: Request) -> None:
    """Refuse a request whose token is not the installation's, in constant time.

    Raises:
        HTTPException: 401, without saying why.
    """
    if request.url.path in OPEN_PATHS:
        return
    given = request.headers.get("authorization", "")
    wanted = f"Bearer {request.app.state.services.settings.token}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise HTTPException(status_code=401, detail="a valid token is required")


def branch_of(request: Request) -> str:
    """Give the branch that a request speaks of: its header, else `main`."""
    headers = request.headers
    return headers.get("x-narthex-branch") or headers.get("x-fennel-branch") or "main"
