"""Holds every answer that a test receives to the OpenAPI document of the server."""

import functools
from typing import Any

from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from narthex_server.app import make_routes
from narthex_server.operations.api_document import document


@functools.cache
def api_routes() -> list[APIRoute]:
    return [
        route
        for route in make_routes().routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]


@functools.cache
def api_document() -> dict[str, Any]:
    return document(api_routes())


def closed(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas, which accept no field that they do not name."""
    return {
        name: {"additionalProperties": False} | schema if "properties" in schema else schema
        for name, schema in schemas.items()
    }


@functools.cache
def components() -> dict[str, Any]:
    found = api_document()["components"]
    return found | {"schemas": closed(found["schemas"])}


def require_declared(method: str, path: str, answer: Any) -> None:
    """Fail on an answer of a status, a type or a form that the document does not have."""
    route = next(
        (r for r in api_routes() if method in r.methods and r.path_regex.match(path)), None
    )
    if route is None:  # a page, or no route at all
        return
    call = f"{method} {path}: {answer.status_code}"
    declared = api_document()["paths"][route.path_format][method.lower()]["responses"]
    assert str(answer.status_code) in declared, f"{call} is not declared"
    response = declared[str(answer.status_code)]
    if "$ref" in response:
        response = components()["responses"][response["$ref"].rpartition("/")[2]]
    form = answer.headers["content-type"].partition(";")[0]
    if form == "application/openmetrics-text":
        form = "text/plain"
    assert form in response["content"], f"{call} is {form}"
    if form == "application/json":
        validator = _validator(str(response["content"][form]["schema"]))
        errors = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(answer.json())]
        assert errors == [], f"{call}: {errors} {answer.text}"


@functools.cache
def _schemas() -> dict[str, Any]:
    return {
        str(content["schema"]): content["schema"]
        for response in (
            *components()["responses"].values(),
            *(
                response
                for operations in api_document()["paths"].values()
                for operation in operations.values()
                for response in operation["responses"].values()
                if "$ref" not in response
            ),
        )
        for content in response["content"].values()
    }


@functools.cache
def _validator(text: str) -> Draft202012Validator:
    return Draft202012Validator(_schemas()[text] | {"components": components()})
