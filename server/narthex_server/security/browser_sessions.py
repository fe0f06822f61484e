"""Sessions of browsers and their forms: a sealed cookie carries the token that a person has shown.

The cookie grants read-only access, and the forms of the console's own pages, so no other site can
make a browser change anything here.
"""

import base64
import datetime as dt
import json
import secrets
from urllib.parse import urlsplit

import attrs
from fastapi import Request, Response

from narthex._base import is_deeper
from narthex_ledger import NotOpenedError, Sealer
from narthex_server.errors import Forbidden

COOKIE = "narthex_session"
LASTS = dt.timedelta(hours=12)

GREATEST_COOKIE_BYTES = 4_096
"""The greatest size of a cookie that browsers store."""

SESSION = "nx_session_"
"""The prefix of the name under which the ledger records that a session has not ended."""

SSO_SESSION = f"{SESSION}sso_"
"""The same prefix of a session that single sign-on has opened: its token ends with it."""

_ABOUT = "console session"


@attrs.frozen(kw_only=True)
class BrowserSession:
    """The content of a browser's cookie.

    Attributes:
        key: The name under which the ledger records that the session has not ended; grants nothing.
    """

    key: str
    token: str = attrs.field(repr=False)

    @property
    def owns_token(self) -> bool:
        """Whether single sign-on made the token for this session alone."""
        return self.key.startswith(SSO_SESSION)


def new_session(token: str, *, owns_token: bool = False) -> BrowserSession:
    """Return a new session of a token; the caller must record its key in the ledger."""
    prefix = SSO_SESSION if owns_token else SESSION
    return BrowserSession(key=f"{prefix}{secrets.token_hex(16)}", token=token)


def open_session(
    response: Response,
    of: BrowserSession,
    *,
    sealer: Sealer,
    is_encrypted: bool,
    lasts: dt.timedelta = LASTS,
) -> None:
    """Set the cookie with the sealed token, for as long as a session lasts.

    With `is_encrypted`, the browser sends it by `https` only.
    """
    ends_at = dt.datetime.now(tz=dt.UTC) + lasts
    response.set_cookie(
        COOKIE,
        seal_text(f"{ends_at.isoformat()} {of.key} {of.token}", about=_ABOUT, sealer=sealer),
        max_age=int(lasts.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=is_encrypted,
    )


def seal_text(text: str, *, about: str, sealer: Sealer) -> str:
    """Seal a text in the form for a cookie or an address."""
    sealed = sealer.seal(text, about=about)
    return base64.urlsafe_b64encode(json.dumps(sealed).encode()).decode()


def open_text(sealed: str, *, about: str, sealer: Sealer) -> str | None:
    """Return the text that was sealed; None if this installation did not seal it so."""
    if not 0 < len(sealed) <= GREATEST_COOKIE_BYTES:
        return None
    try:
        content = base64.urlsafe_b64decode(sealed)
        if base64.urlsafe_b64encode(content).decode() != sealed or is_deeper(content, 1):
            return None
        return sealer.open(json.loads(content), about=about)
    except (ValueError, NotOpenedError):
        return None


def close_session(response: Response) -> None:
    """Delete the cookie with the token."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def session_of(request: Request, *, sealer: Sealer) -> BrowserSession | None:
    """Return a browser's session; None without one, once expired, or if its cookie was changed.

    The ledger has, under its key, whether the session was ended before it expired.
    """
    text = open_text(request.cookies.get(COOKIE, ""), about=_ABOUT, sealer=sealer)
    if text is None:
        return None
    try:
        ends_at, key, token = text.split(" ", maxsplit=2)
        is_over = dt.datetime.fromisoformat(ends_at) <= dt.datetime.now(tz=dt.UTC)
    except ValueError:
        return None
    return None if is_over else BrowserSession(key=key, token=token)


def require_own_form(request: Request, *, has_proof: bool = False) -> None:
    """Refuse a form that a page of another site sent.

    Every browser names the origin of a form. With `has_proof`, a request without it is refused too.

    Raises:
        Forbidden: Another site sent it, or its origin is not known.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin" or (site == "none" and not has_proof)
    elif origin is not None:
        hosts = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
        is_own = urlsplit(origin).netloc in hosts - {None, ""}
    else:
        is_own = not has_proof
    if not is_own:
        raise Forbidden("another site sent this form")
