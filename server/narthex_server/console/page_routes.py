"""The kind of the routes of pages, and their refusals, which are pages too."""

import json
import re
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from typing_extensions import override

from narthex_server.console.rendering import PageLocation, page
from narthex_server.errors import NotAuthenticated, NothingDeployed
from narthex_server.security.principals import named_branch
from narthex_server.services.container import services_of
from narthex_server.sso.sign_in import sso_of
from narthex_server.web import error_responses

OWN_PAGE: Final = re.compile(r"/console(/[A-Za-z0-9-]*)*(\?[^\s\\]*)?")
"""Addresses to which a browser may be redirected after sign-in."""


class PageRoute(APIRoute):
    """A route whose refusals are pages too: the API's message, and a link to sign in."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        answer = super().get_route_handler()

        async def rendered(request: Request) -> Response:
            try:
                return await answer(request)
            except Exception as error:  # noqa: BLE001 - any other error is raised again
                return self.answer_error(request, error)

        return rendered

    @staticmethod
    def answer_error(request: Request, error: Exception) -> Response:
        """Render a refusal as a page; raise any other error again."""
        refusal = error_responses.error_response(error)
        message = str(json.loads(bytes(refusal.body))["err_msg"])
        has_token = request.method != "GET" or bool(request.headers.get("authorization"))
        if isinstance(error, NotAuthenticated) and not has_token:
            message = ""  # nothing is wrong yet: the page asks for a token
        if isinstance(error, NothingDeployed):
            is_list = not request.path_params
            status = HTTPStatus.OK if is_list else HTTPStatus.NOT_FOUND
            return page("undeployed", location_of(request), {}, status=status)
        return refused_page(request, message, status=refusal.status_code)


def location_of(request: Request) -> PageLocation:
    """Return the location of the page that a request asks for."""
    return PageLocation(
        path=request.url.path,
        branch=named_branch(request),
        embedded="x-narthex-embedded" in request.headers,
        weakness=services_of(request).workers.weakness,
    )


Location: TypeAlias = Annotated[PageLocation, Depends(location_of)]


def refused_page(request: Request, message: str, *, status: int) -> HTMLResponse:
    """Render a refusal; ask an unauthenticated caller for a token."""
    location = location_of(request)
    template = "sign_in" if status in {401, 403} and not location.embedded else "refused"
    if template == "sign_in":
        return sign_in_page(request, message, status=status)
    return page(template, location, {"message": message}, status=status)


def sign_in_page(request: Request, message: str = "", *, status: int = 200) -> HTMLResponse:
    """Render the form for a token, with a link to the provider if there is one."""
    path = request.url.path
    is_page = request.method == "GET" and not path.startswith(("/console/sign", "/console/sso"))
    shown = {
        "to": f"{path}?{request.url.query}" if is_page else "/console",
        "message": message,
        "provider": sso_of(request).provider_name(),
    }
    return page("sign_in", location_of(request), shown, status=status)
