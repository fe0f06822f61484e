"""Sessions of browsers: who has shown a token once carries it in a cookie that only we can read.

The cookie opens what can only be read, never what changes anything, so no other site can make a
browser do something here.
"""

import base64
import datetime as dt
import json

from fastapi import Request, Response

from narthex_ledger import NotOpenedError, Sealer

COOKIE = "narthex_session"
LASTS = dt.timedelta(hours=12)

_ABOUT = "console session"


def open_session(response: Response, request: Request, token: str, *, sealer: Sealer) -> None:
    """Let a browser carry a token, sealed, for as long as a session lasts."""
    ends_at = dt.datetime.now(tz=dt.UTC) + LASTS
    sealed = sealer.seal(f"{ends_at.isoformat()} {token}", about=_ABOUT)
    response.set_cookie(
        COOKIE,
        base64.urlsafe_b64encode(json.dumps(sealed).encode()).decode(),
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def close_session(response: Response) -> None:
    """Let a browser forget its token."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def session_token(request: Request, *, sealer: Sealer) -> str:
    """Give the token of a browser's session; empty without one, and when it is over."""
    try:
        sealed = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")))
        ends_at, _, token = sealer.open(sealed, about=_ABOUT).partition(" ")
    except (ValueError, NotOpenedError):
        return ""
    return token if dt.datetime.fromisoformat(ends_at) > dt.datetime.now(tz=dt.UTC) else ""
