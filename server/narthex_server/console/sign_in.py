"""The routes by which a browser signs in, with a token or at the provider, and signs out."""

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from typing_extensions import override

from narthex_server.console.page_routes import (
    OWN_PAGE,
    Location,
    PageRoute,
    sign_in_page,
)
from narthex_server.console.rendering import page
from narthex_server.errors import NotAuthenticated, TooManyAttempts
from narthex_server.security.auth import Authenticator, AuthenticatorDep
from narthex_server.security.browser_sessions import (
    LASTS,
    close_session,
    new_session,
    open_session,
    require_own_form,
    session_of,
)
from narthex_server.security.principals import Principal
from narthex_server.security.route_rights import Body, open_to_all
from narthex_server.security.sign_in_attempts import Attempts, attempts_of
from narthex_server.sso.sign_in import SIGN_IN_LASTS, CommandLine, SsoDep
from narthex_server.web import error_responses

router = APIRouter(prefix="/console", route_class=PageRoute)
OPEN = open_to_all()

SIGN_IN_COOKIE: Final = "narthex_sso"
"""The cookie that binds a sign-in at the provider to its browser."""

GREATEST_TO: Final = 1_000
"""The longest address of a page that is opened after a sign-in at the provider."""


class ProviderRoute(PageRoute):
    """A route of single sign-on: each refusal is the page on which one can sign in otherwise."""

    @staticmethod
    @override
    def answer_error(request: Request, error: Exception) -> Response:
        """Render a refusal with the ways to sign in; raise any other error again."""
        refusal = error_responses.error_response(error)
        message = error_responses.message_of(error)
        return sign_in_page(request, message, status=refusal.status_code)


at_provider = APIRouter(route_class=ProviderRoute)


@router.get("/sign-in", dependencies=[OPEN])
def sign_in_form(request: Request) -> HTMLResponse:
    """The form in which a browser shows a token."""
    return sign_in_page(request)


@router.post("/sign-in", dependencies=[open_to_all(body=Body.FORM, is_recorded=True)])
def sign_in(
    request: Request,
    location: Location,
    authenticator: AuthenticatorDep,
    attempts: Annotated[Attempts, Depends(attempts_of)],
    token: Annotated[str, Form()],
    to: Annotated[str, Form()] = "",
) -> Response:
    """Sign a browser in with a known token; redirect it only to a page of the console."""
    require_own_form(request)
    caller = _caller(request)
    if not attempts.may_try(caller):
        raise TooManyAttempts("too many wrong tokens; try again in a minute")
    principal = authenticator.tokens.holder(token.strip())
    if principal is None:
        attempts.failed(caller)
        raise NotAuthenticated
    request.state.principal = principal
    _end_session(request, authenticator)
    session = new_session(token.strip())
    authenticator.ledger.tokens.put(
        session.key, name=f"console of {principal.name}", scopes=(), lifetime=LASTS
    )
    answer = RedirectResponse(f"{location.root}{_own_page(to)[1:]}", status_code=303)
    is_encrypted = request.url.scheme == "https"
    open_session(answer, session, sealer=authenticator.sealer, is_encrypted=is_encrypted)
    return answer


@router.post("/sign-out", dependencies=[open_to_all(is_recorded=True)])
def sign_out(request: Request, location: Location, authenticator: AuthenticatorDep) -> Response:
    """End a browser's session: its cookie, and any copy of it, is no longer valid."""
    require_own_form(request)
    principal = _end_session(request, authenticator)
    if principal is not None:
        request.state.principal = principal
    answer = RedirectResponse(f"{location.root}console/sign-in", status_code=303)
    close_session(answer)
    return answer


def _command_line(
    port: int | None = None, challenge: str = "", state: str = ""
) -> CommandLine | None:
    """Return the command that asks for a token, if one does."""
    if port is None:
        return None
    return CommandLine(port=port, challenge=challenge, state=state)


@at_provider.get("/sso", dependencies=[OPEN])
def begin(
    request: Request,
    sso: SsoDep,
    authenticator: AuthenticatorDep,
    command: Annotated[CommandLine | None, Depends(_command_line)],
    to: str = "",
) -> Response:
    """Send a browser to the provider; its present session ends, unless a command asks.

    The provider's answer comes from another site, with which a browser sends no session's cookie.
    """
    if command is None:
        _end_session(request, authenticator)
    address, cookie, file = sso.begin(to=_own_page(to), command=command)
    answer = RedirectResponse(address, status_code=303, headers=_UNKEPT)
    answer.set_cookie(
        SIGN_IN_COOKIE,
        cookie,
        max_age=int(SIGN_IN_LASTS.total_seconds()),
        httponly=True,
        samesite="lax",  # the provider's page sends the browser back
        secure=file.is_encrypted,
    )
    return answer


@at_provider.get("/sso/callback", dependencies=[open_to_all(is_recorded=True)])
def finish(
    request: Request, location: Location, sso: SsoDep, authenticator: AuthenticatorDep
) -> Response:
    """Sign a browser in with the provider's answer, or hand a code to the command that asked.

    A page, not a redirect, leads on: after a redirect from another site a browser would not send
    the session's cookie.
    """
    cookie = request.cookies.get(SIGN_IN_COOKIE, "")
    began, signed_in, file = sso.finish(
        request.query_params, cookie=cookie, caller=_caller(request)
    )
    shown: dict[str, object] = {"name": signed_in.name}
    if began.command is None:
        made = sso.make_token(signed_in)
        request.state.principal = authenticator.tokens.holder(made.token)
        session = new_session(made.token, owns_token=True)
        authenticator.ledger.tokens.put(
            session.key, name=f"console of {signed_in.name}", scopes=(), lifetime=made.lasts
        )
        answer = page("signed_in", location, shown | {"to": f"{location.root}{began.to[1:]}"})
        open_session(
            answer,
            session,
            sealer=authenticator.sealer,
            is_encrypted=file.is_encrypted,
            lasts=made.lasts,
        )
    else:
        request.state.principal = _person(signed_in.name)
        query = {"code": sso.command_code(signed_in, began.command), "state": began.command.state}
        to = f"http://127.0.0.1:{began.command.port}/?{urlencode(query)}"
        answer = page("command_line", location, shown | {"to": to})
    answer.delete_cookie(SIGN_IN_COOKIE, httponly=True, samesite="lax")
    return answer


router.include_router(at_provider)

_UNKEPT: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""The headers of an answer that is for one browser, once."""


def _end_session(request: Request, authenticator: Authenticator) -> Principal | None:
    """End a browser's session, and the token that was made for it alone; return its person."""
    session = session_of(request, sealer=authenticator.sealer)
    if session is None:
        return None
    principal = authenticator.tokens.holder(session.token)
    for ended in (session.key, *((session.token,) if session.owns_token else ())):
        authenticator.ledger.tokens.revoke(ended)
        authenticator.forget(ended)
    return principal


def _own_page(to: str) -> str:
    """Return a page of the console: the one that is named, if it is one."""
    is_own = len(to) <= GREATEST_TO and OWN_PAGE.fullmatch(to)
    return to if is_own and not to.startswith("/console/sso") else "/console"


def _person(name: str) -> Principal:
    """Return a person who has no rights yet, for the log."""
    return Principal(name=name, token_id="", rights=frozenset(), branches=())


def _caller(request: Request) -> str:
    return request.client.host if request.client else ""
