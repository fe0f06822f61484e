"""Routes that list logged queries, and compare one with what readers would get now."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._base import render_instant
from narthex._query import GarbledAnswerError, LoggedQuery
from narthex.errors import DefinitionErrors, NarthexError
from narthex_server.deploy.logged_queries import newest_records, record_at
from narthex_server.errors import Missing, ServerError
from narthex_server.reads.answers import Answerer
from narthex_server.reads.calls import QueryCall
from narthex_server.reads.routes import ExplainedFeature
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import Services, ServicesDep, SettingsDep
from narthex_server.web.plain_routes import Id, Instant, PlainRoute
from narthex_stores import Record, StoreError

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])

MOST_SEARCHED: Final = 2_000
"""How many of the newest records of the log a list is made from."""

MOST_LISTED: Final = 500
MOST_ROWS: Final = 100
"""How many rows of a query are shown, and answered again."""


class LoggedQueryEntry(TypedDict):
    """A logged query.

    Attributes:
        query: Its name, by which it is shown.
        as_of: The instant that it is of.
        commit_id: The commit whose definitions answered.
        workflow: The caller's name for the purpose of the query; may be empty.
        inputs: The given features.
        outputs: The features in the answer.
        rows: How many rows the answer has.
    """

    query: str
    logged_at: Instant
    as_of: Instant
    commit_id: Id
    workflow: str
    inputs: list[str]
    outputs: list[str]
    rows: int


class LoggedQueries(TypedDict):
    """Logged queries of a branch, newest first.

    Attributes:
        searched: How many of the newest logged queries of the installation were searched.
    """

    queries: list[LoggedQueryEntry]
    searched: int


class AnswerNow(TypedDict):
    """The answer that readers of the branch get now for the instant of a logged query.

    Attributes:
        answers: The answers, by feature; late rows and other definitions make them differ.
        features: The origin of each feature, as a query with `explain` has it.
        commit_id: The commit whose definitions answered.
    """

    answers: dict[str, list[JsonValue]]
    features: dict[str, ExplainedFeature]
    commit_id: str


class LoggedQueryDetails(TypedDict):
    """A logged query with its values, and the answer for the same inputs and instant now.

    Attributes:
        given: The given features, of the first hundred rows.
        answers: The features of the answer, the given ones too, of the same rows.
        now: The answer of now; null if there is none.
        why_not: Why there is none; empty otherwise.
    """

    entry: LoggedQueryEntry
    given: dict[str, list[JsonValue]]
    answers: dict[str, list[JsonValue]]
    now: AnswerNow | None
    why_not: str


Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]
QueryName = Annotated[str, Path(pattern=r"^\d{1,9}\.\d{1,18}$")]


@router.get("/logged_queries")
def logged_queries(
    settings: SettingsDep,
    access: AccessDep,
    featureset: Annotated[str, Query(max_length=200)] = "",
    limit: Limit = 50,
) -> LoggedQueries:
    """List the newest logged queries of a branch, or those that answered a featureset.

    A query that names a feature which the principal does not see is not listed.
    """
    records = newest_records(settings, MOST_SEARCHED)
    seen = SeenFeatures.of(access)
    found = [
        entry_of(record, query)
        for record, query in _decoded(records)
        if query.branch == access.branch
        and seen.has(query)
        and (not featureset or featureset in _featuresets(query.outputs))
    ]
    return {"queries": found[:limit], "searched": len(records)}


@router.get("/logged_queries/{query}")
def logged_query(query: QueryName, services: ServicesDep, access: AccessDep) -> LoggedQueryDetails:
    """Return a logged query with its values, and the explained answer of now for its instant."""
    partition, offset = map(int, query.split("."))
    record = record_at(services.settings, partition, offset)
    for known, logged in _decoded([] if record is None else [record]):
        if logged.branch == access.branch and SeenFeatures.of(access).has(logged):
            given, answers = _first_rows(logged.inputs), _first_rows(logged.outputs)
            now, why_not = _answer_now(services, access, logged, given)
            return {
                "entry": entry_of(known, logged),
                "given": given,
                "answers": answers,
                "now": now,
                "why_not": why_not,
            }
    raise Missing(f"there is no logged query `{query}`; queries are kept for 30 days")


class SeenFeatures:
    """The features that a principal sees on a branch."""

    def __init__(self, names: frozenset[str] | None) -> None:
        """Take the names; None means all, deployed or not."""
        self._names = names

    @classmethod
    def of(cls, access: Access) -> "SeenFeatures":
        """Return those of the principal of a request."""
        if access.principal.tags == ("*",):
            return cls(None)
        deployed = access.snapshots.deployed(access.branch)
        if deployed is None:
            return cls(frozenset())
        shown = access.shown(deployed.definitions)
        return cls(
            frozenset(f"{of.name}.{one.name}" for of in shown.featuresets for one in of.features)
        )

    def has(self, query: LoggedQuery) -> bool:
        """Return whether all features of a query are among them."""
        return self._names is None or self._names.issuperset([*query.inputs, *query.outputs])


def entry_of(record: Record, query: LoggedQuery) -> LoggedQueryEntry:
    """Return a logged query without its values."""
    logged_at = dt.datetime.fromtimestamp(record.timestamp_ms / 1000, dt.UTC)
    return {
        "query": f"{record.partition}.{record.offset}",
        "logged_at": logged_at.isoformat(),
        "as_of": render_instant(query.as_of),
        "commit_id": query.commit_id,
        "workflow": query.workflow,
        "inputs": [*query.inputs],
        "outputs": [*query.outputs],
        "rows": max((len(cells) for cells in query.outputs.values()), default=0),
    }


def _decoded(records: Iterable[Record]) -> Iterable[tuple[Record, LoggedQuery]]:
    for record in records:
        try:
            yield record, LoggedQuery.decoded(record.value or b"")
        except GarbledAnswerError:
            continue


def _featuresets(features: Iterable[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in features)


def _first_rows(columns: Mapping[str, Sequence[JsonValue]]) -> dict[str, list[JsonValue]]:
    return {name: [*cells[:MOST_ROWS]] for name, cells in columns.items()}


def _answer_now(
    services: Services, access: Access, logged: LoggedQuery, given: dict[str, list[JsonValue]]
) -> tuple[AnswerNow | None, str]:
    """Answer a logged query again, as of its instant; or return why that is not possible."""
    call = QueryCall(
        inputs=[*logged.inputs],
        outputs=[*logged.outputs],
        data=given,
        as_of=logged.as_of,
        explain=True,
    )
    answerer = Answerer(
        tenant=services.tenant,
        workers=services.workers,
        query_log=services.answers,
        meters=services.meters,
        greatest_values=services.settings.reads_greatest_values,
    )
    try:
        snapshot = access.snapshots.serving(access.branch)
        query = snapshot.query(call.inputs, call.outputs)
        answerer.require_moderate(query, call)
        found = msgspec.json.decode(answerer.query(call, query, snapshot, access.branch).body)
    except (DefinitionErrors, NarthexError, ServerError, StoreError) as error:
        return None, str(error)
    commit_id = str(found["read"]["commit_id"])
    return {"answers": found["answers"], "features": found["features"], "commit_id": commit_id}, ""
