"""The routes of reads, as the API's document and the request checks know them.

`ReadHandler` answers these requests before any route is chosen.
"""

from typing import Any, Final

import msgspec
from fastapi import APIRouter, Response
from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex.errors import SandboxUnavailable, UserCodeError
from narthex_server.errors import (
    DeadlineExceeded,
    IndexUnavailable,
    SnapshotTooOld,
    TooManyRequests,
)
from narthex_server.reads.calls import LookupCall, QueryCall
from narthex_server.security.route_rights import Right, requires
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import SCHEMAS, PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])


class FoundRows(TypedDict):
    """Rows of a dataset, one for each key, in the order of the keys.

    Attributes:
        found: Whether the key has a row.
        data: The values by field; null where the key has no row.
    """

    found: list[bool]
    data: dict[str, list[JsonValue]]


class Read(TypedDict):
    """The commit, the instant and the log offsets of an answer.

    Attributes:
        as_of: The instant, microseconds.
        offsets: For each dataset, topic and partition, the next offset that was not read.
    """

    commit_id: str
    serving_seq: int
    as_of: int
    offsets: dict[str, dict[str, dict[str, int]]]


class ExplainedFeature(TypedDict):
    """The origin of a feature's cells; all but `sources` have one item per row.

    Attributes:
        sources: The dataset's column that was looked up, as `Dataset.column`, or the features that
            the feature is computed from; empty for a given feature.
        event_time: The event time of the oldest row that was found for the feature or one of its
            sources; null where no row was found.
        age_s: How long before the instant of the answer that was, seconds.
        default: Whether a default took the place of a missing row or a null, in the feature or one
            of its sources.
    """

    sources: list[str]
    event_time: list[str | None]
    age_s: list[float | None]
    default: list[bool]


class ExplainedAnswer(TypedDict):
    """An answer with its origin, which a query with `explain` gets."""

    answers: dict[str, list[JsonValue]]
    read: Read
    features: dict[str, ExplainedFeature]


_AGE: Final = {
    "x-narthex-snapshot-age": {
        "description": "How many seconds ago the server last read which commit serves.",
        "schema": {"type": "number"},
    }
}
_ANSWER: Final[dict[str, Any]] = {
    "model": dict[str, list[JsonValue]] | ExplainedAnswer,
    "headers": {
        "x-narthex-read": {
            "description": "The commit and the instant of the answer, as JSON.",
            "schema": {"type": "string"},
        },
        **_AGE,
    },
}
_DEADLINE: Final = {
    "name": "X-NARTHEX-TIMEOUT-MS",
    "in": "header",
    "description": "How many milliseconds the caller waits; after that, the server does not begin "
    "to answer.",
    "schema": {"type": "integer", "minimum": 0},
}
_ERRORS: Final = (IndexUnavailable, SnapshotTooOld, TooManyRequests, DeadlineExceeded)


def _documented(call: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the documentation of a body, and of the header that all reads accept."""
    (schema,), schemas = msgspec.json.schema_components(
        [call], ref_template="#/components/schemas/{name}"
    )
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "parameters": [_DEADLINE],
        SCHEMAS: schemas,
    }


@router.post(
    "/query",
    responses={200: _ANSWER, **raises(UserCodeError, SandboxUnavailable, *_ERRORS)},
    openapi_extra=_documented(QueryCall),
)
def query() -> Response:
    """Return features as columns.

    The header `x-narthex-read` names the commit and the instant that the answer is of.
    """
    raise AssertionError("`ReadHandler` answers queries")


@router.post(
    "/dataset/{name}/lookup",
    responses={200: {"model": FoundRows, "headers": _AGE}, **raises(*_ERRORS)},
    openapi_extra=_documented(LookupCall),
)
def lookup(name: str) -> Response:
    """Look up rows of a dataset by key, each as of now or of an instant."""
    raise AssertionError(f"`ReadHandler` answers lookups of `{name}`")
