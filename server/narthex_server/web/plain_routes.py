"""Routes that document their answers, and send them unvalidated: mypy has checked them."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Path, Query, Response
from fastapi.routing import APIRoute
from pydantic import Field
from typing_extensions import override

from narthex._base import Json

GREATEST_NUMBER: Final = 2**63 - 1
"""The greatest number that the ledger can store."""

Number: TypeAlias = Annotated[int, Query(ge=0, le=GREATEST_NUMBER)]
"""A number in the query of an address, which the ledger can compare with its own."""

PathNumber: TypeAlias = Annotated[int, Path(ge=0, le=GREATEST_NUMBER)]
"""The same in a path."""

Id: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
Instant: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A string of an answer that is an id, or an instant."""

IDEMPOTENT: Final = {"parameters": [{"$ref": "#/components/parameters/IdempotencyKey"}]}
"""The documentation that a route adds if it honours an idempotency key."""


SCHEMAS: Final = "x-schemas"
"""The key of `openapi_extra` for schemas of bodies that FastAPI does not parse, by their names."""


class PlainRoute(APIRoute):
    """A route that documents the type that its function returns, and does not validate it.

    A function that returns a `Response` declares the type of its content in `responses`.
    """

    @override
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["response_model"] = None
        options["responses"] = _answer_of(endpoint) | (options.get("responses") or {})
        super().__init__(path, endpoint, **options)


def _answer_of(endpoint: Callable[..., Any]) -> dict[int | str, dict[str, Any]]:
    answer = inspect.signature(endpoint).return_annotation
    is_response = isinstance(answer, type) and issubclass(answer, Response)
    return {} if is_response else {200: {"model": answer}}


def plain_response(answer: Json, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of plain JSON, without FastAPI's pass over each value."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, media_type="application/json", headers=dict(headers or {}))
