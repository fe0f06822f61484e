"""Routes whose answers are sent unvalidated: they consist of plain JSON already."""

import json
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from fastapi import Path, Query, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from narthex._base import Json

GREATEST_NUMBER: Final = 2**63 - 1
"""The greatest number that the ledger can store."""

Number: TypeAlias = Annotated[int, Query(ge=0, le=GREATEST_NUMBER)]
"""A number in the query of an address, which the ledger can compare with its own."""

PathNumber: TypeAlias = Annotated[int, Path(ge=0, le=GREATEST_NUMBER)]
"""The same in a path."""


class PlainRoute(APIRoute):
    """A route that does not build or validate a response model."""

    @override
    def __init__(self, *arguments: object, **options: object) -> None:
        options["response_model"] = None
        super().__init__(*arguments, **options)  # type: ignore[arg-type]


def plain_response(answer: Json, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of plain JSON, without FastAPI's pass over each value."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, media_type="application/json", headers=dict(headers or {}))
