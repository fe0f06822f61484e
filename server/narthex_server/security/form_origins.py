"""The origin of a form: a page of ours, or a page of another site."""

from urllib.parse import urlsplit

from fastapi import Request

from narthex_server.errors import Forbidden


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
