"""The OpenAPI document has every route: its text, its right, its answers and its errors."""

import datetime as dt
import functools
import json
from typing import Any

import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from narthex_server.app import make_routes
from narthex_server.security.route_rights import requirement_of
from narthex_server.web.error_responses import STATUSES
from tests.cases import every
from tests.server.calling import TestClient
from tests.server.conftest import House
from tests.server.declared_answers import api_document, api_routes, components


@functools.cache
def api_operations() -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in api_document()["paths"].items()
        for method, operation in operations.items()
    }


def test_every_route_of_the_api_is_in_the_document() -> None:
    routes = {
        f"{method} {route.path_format}"
        for route in make_routes().routes
        if isinstance(route, APIRoute) and not route.path.startswith("/console")
        for method in route.methods
    }

    assert routes == set(api_operations())
    assert len({operation["operationId"] for operation in api_operations().values()}) == len(routes)


@every("name", lambda: sorted(api_operations()))
def test_every_route_has_a_summary_a_right_and_the_form_of_its_answers(name: str) -> None:
    operation = api_operations()[name]
    successes = [text for text in operation["responses"] if text.startswith(("2", "501"))]

    assert operation["summary"].endswith(".")
    assert operation["tags"]
    assert successes
    for status in successes:
        for content in operation["responses"][status]["content"].values():
            assert content["schema"], status


def test_every_route_shows_the_right_that_it_declares() -> None:
    for route in api_routes():
        requirement = requirement_of(route)
        assert requirement is not None
        for method in route.methods:
            operation = api_operations()[f"{method} {route.path_format}"]
            assert operation.get("x-right") == requirement.right
            assert ("security" in operation) is not requirement.is_open


def test_every_status_of_the_table_of_errors_is_documented() -> None:
    documented = {int(status) for status in components()["responses"]}

    assert set(STATUSES.values()) <= documented


def test_all_schemas_are_valid_and_all_references_lead_to_one() -> None:
    for schema in components()["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for place in _references(api_document()):
        kind, name = place.removeprefix("#/components/").split("/")
        assert name in api_document()["components"][kind]


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {place for item in value for place in _references(item)}
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own | {place for item in value.values() for place in _references(item)}
    return set()


@pytest.mark.postgres
def test_only_a_token_may_read_the_document(house: House) -> None:
    house.ledger.tokens.put(
        "nx_tests_ada",
        name="ada",
        scopes=("ingest",),
        branches=("ada",),
        tags=(),
        lifetime=dt.timedelta(days=1),
    )
    ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_tests_ada"})
    stranger = TestClient(house.client.app)

    answer = ada.get("/api/v1/openapi.json")

    assert answer.json() == house.client.get("/api/v1/openapi.json").json()
    assert answer.json() == json.loads(json.dumps(api_document()))
    assert stranger.get("/api/v1/openapi.json").status_code == 401
    assert ada.get("/api/v1/tokens").status_code == 403
