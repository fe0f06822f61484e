"""The OpenAPI document: routes, their rights and answers, and the errors of one table."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import JsonValue, TypeAdapter
from starlette.routing import BaseRoute

from narthex_server.errors import Conflicting, Forbidden, Missing, NotAuthenticated, TooManyRequests
from narthex_server.security.route_rights import (
    AccessRequirement,
    Body,
    Extent,
    any_token,
    requirement_of,
)
from narthex_server.web.error_responses import FAILED, STATUSES, ErrorBody
from narthex_server.web.plain_routes import SCHEMAS, PlainRoute, plain_response
from narthex_server.web.request_limits import REFUSALS
from narthex_stores import StoreError

router = APIRouter(route_class=PlainRoute)

ABOUT: Final = """The REST API of a Narthex server.

`x-right` of an operation is the right that its token must have; null means that every token
suffices. An operation without `security` needs no token.
"""

_SCHEMAS: Final = "#/components/schemas/{model}"
_BRANCH: Final = {
    "name": "X-NARTHEX-BRANCH",
    "in": "header",
    "description": "The branch; `main` by default. `X-FENNEL-BRANCH`, and `branch` in the query, "
    "mean the same.",
    "schema": {"type": "string", "default": "main"},
}
_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A call that repeats a key has no effect, and the answer of the first call.",
    "schema": {"type": "string", "maxLength": 200},
}
_WITH_BODY: Final = frozenset({"POST", "PATCH"})
_EVERY: Final = frozenset(
    {STATUSES[one] for one in (RequestValidationError, TooManyRequests, StoreError)} | {431, FAILED}
)
_ATTRIBUTES: Final = re.compile(r"\n*^Attributes:\n((?:    .*\n?)+)", re.MULTILINE)
_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


@router.get(
    "/openapi.json",
    dependencies=[any_token()],
    responses={200: {"model": dict[str, JsonValue]}},
)
def openapi(request: Request) -> Response:
    """Return this document.

    It needs a token, because it shows what an installation can do, and every token suffices,
    because it shows nothing about definitions or rows.
    """
    app: FastAPI = request.app
    if app.openapi_schema is None:
        app.openapi_schema = document(app.routes)
    return plain_response(app.openapi_schema)


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of routes, without pages."""
    shown = [route for route in routes if isinstance(route, APIRoute) and route.include_in_schema]
    api = get_openapi(title="Narthex", version="v1", description=ABOUT, routes=shown)
    components = api["components"]
    schemas = components["schemas"]
    for route in shown:
        for method in route.methods:
            operation = api["paths"][route.path_format][method.lower()]
            schemas |= operation.pop(SCHEMAS, {})
            _complete(operation, route, method)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    error = TypeAdapter(ErrorBody).json_schema(ref_template=_SCHEMAS)
    schemas |= error.pop("$defs", {}) | {"ErrorBody": error}
    for schema in schemas.values():
        _describe_properties(schema)
    components["responses"] = {str(status): _error(text) for status, text in _errors().items()}
    components["parameters"] = {"Branch": _BRANCH, "IdempotencyKey": _IDEMPOTENCY_KEY}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return api


def _complete(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    """Add to an operation: its text, its right, its branch, and its errors."""
    summary, _, description = inspect.cleandoc(route.endpoint.__doc__ or "").partition("\n\n")
    module = route.endpoint.__module__.rpartition(".")[2]
    operation |= {
        "operationId": f"{module}.{route.endpoint.__name__}",
        "summary": summary.replace("\n", " "),
        "description": description,
    }
    requirement = requirement_of(route)
    if requirement is None:
        return
    if not requirement.is_open:
        operation["security"] = [{"token": []}]
        operation["x-right"] = requirement.right
    if _is_of_branch(requirement):
        branch = {"$ref": "#/components/parameters/Branch"}
        operation["parameters"] = [*operation.get("parameters", []), branch]
    answers = operation["responses"]
    validation = "422"  # FastAPI's default, which `STATUSES` replaces
    if validation in answers and int(validation) not in route.responses:
        del answers[validation]
    for status in sorted({*_statuses(route, requirement, method)}):
        answers[str(status)] = {"$ref": f"#/components/responses/{status}"}


def _is_of_branch(requirement: AccessRequirement) -> bool:
    return requirement.extent is Extent.BRANCH and not requirement.is_open


def _statuses(route: APIRoute, requirement: AccessRequirement, method: str) -> Iterator[int]:
    """Yield the statuses of a route's errors: those of every such route, and those it declares."""
    yield from _EVERY
    yield from (int(status) for status in route.responses if int(status) in _errors())
    if not requirement.is_open:
        yield from (STATUSES[NotAuthenticated], STATUSES[Forbidden])
    if _is_of_branch(requirement) or route.param_convertors:
        yield STATUSES[Missing]
    if method != "GET":
        yield STATUSES[Conflicting]
    if method in _WITH_BODY:
        yield from (408, 413, 415)
    if requirement.body is Body.DELIMITED:
        yield 411


def _errors() -> dict[int, str]:
    """Return what each status means, from the table of errors and that of requests."""
    texts: dict[int, list[str]] = {FAILED: ["The server failed; its log has the reason."]}
    for kind, status in STATUSES.items():
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        if kind is not RequestValidationError:
            texts.setdefault(status, []).append(first)
    for status, text in REFUSALS.items():
        texts.setdefault(status, []).append(text)
    return {status: " ".join(texts[status]) for status in sorted(texts)}


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": _SCHEMAS.format(model="ErrorBody")}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _describe_properties(schema: dict[str, Any]) -> None:
    """Move the section `Attributes` of a description to the properties that it describes."""
    section = _ATTRIBUTES.search(schema.get("description", ""))
    if section is None:
        return
    schema["description"] = _ATTRIBUTES.sub("", schema["description"]).strip()
    for name, text in _ATTRIBUTE.findall(section[1]):
        if name in schema["properties"]:
            schema["properties"][name]["description"] = re.sub(r"\s+", " ", text)
