"""Sessions of browsers: a sealed cookie carries the token that a person has shown.

The cookie grants read-only access, so no other site can make a browser change anything here.
"""

import base64
import datetime as dt
import json
import secrets

import attrs
from fastapi import Request, Response

from narthex._base import is_deeper
from narthex_ledger import NotOpenedError, Sealer

COOKIE = "narthex_session"
LASTS = dt.timedelta(hours=12)

GREATEST_COOKIE_BYTES = 4_096
"""The greatest size of a cookie that browsers store."""

SESSION = "nx_session_"
"""The prefix of the name under which the ledger records that a session has not ended."""

_ABOUT = "console session"


@attrs.frozen(kw_only=True)
class BrowserSession:
    """The content of a browser's cookie.

    Attributes:
        key: The name under which the ledger records that the session has not ended; grants nothing.
    """

    key: str
    token: str = attrs.field(repr=False)


def new_session(token: str) -> BrowserSession:
    """Return a new session of a token; the caller must record its key in the ledger."""
    return BrowserSession(key=f"{SESSION}{secrets.token_hex(16)}", token=token)


def open_session(
    response: Response, request: Request, of: BrowserSession, *, sealer: Sealer
) -> None:
    """Set the cookie with the sealed token, for as long as a session lasts."""
    ends_at = dt.datetime.now(tz=dt.UTC) + LASTS
    sealed = sealer.seal(f"{ends_at.isoformat()} {of.key} {of.token}", about=_ABOUT)
    response.set_cookie(
        COOKIE,
        base64.urlsafe_b64encode(json.dumps(sealed).encode()).decode(),
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def close_session(response: Response) -> None:
    """Delete the cookie with the token."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def session_of(request: Request, *, sealer: Sealer) -> BrowserSession | None:
    """Return a browser's session; None without one, once expired, or if its cookie was changed.

    The ledger has, under its key, whether the session was ended before it expired.
    """
    cookie = request.cookies.get(COOKIE, "")
    if not 0 < len(cookie) <= GREATEST_COOKIE_BYTES:
        return None
    try:
        content = base64.urlsafe_b64decode(cookie)
        if base64.urlsafe_b64encode(content).decode() != cookie or is_deeper(content, 1):
            return None
        ends_at, key, token = sealer.open(json.loads(content), about=_ABOUT).split(" ", maxsplit=2)
    except (ValueError, NotOpenedError):
        return None
    is_over = dt.datetime.fromisoformat(ends_at) <= dt.datetime.now(tz=dt.UTC)
    return None if is_over else BrowserSession(key=key, token=token)
