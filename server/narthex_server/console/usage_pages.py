"""The pages of what is used: what no query has read for some time, and logged queries."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from narthex_server.catalog import unread
from narthex_server.catalog.unread import Unread
from narthex_server.console.list_parts import LONGEST, PartNumber, part_of
from narthex_server.console.page_routes import Location, PageRoute
from narthex_server.console.pages import READ, BranchNames
from narthex_server.console.rendering import page
from narthex_server.reads import logged_queries
from narthex_server.reads.logged_queries import LoggedQueries, LoggedQueryDetails
from narthex_server.security.route_rights import Right, requires

router = APIRouter(prefix="/console", route_class=PageRoute)

READ_DATA = requires(Right.READ_DATA)

SPANS: Final = (7, 30, 90, 365)
"""The spans that the page offers, in days."""


@router.get("/unread", dependencies=[READ])
def unread_page(
    location: Location,
    answer: Annotated[Unread, Depends(unread.unread)],
    names: BranchNames,
    part: PartNumber = 1,
) -> HTMLResponse:
    """The datasets, features and branches that no query has read for some days."""
    entities = [
        *(("dataset", dataset) for dataset in answer["datasets"]),
        *(("featureset", featureset) for featureset in answer["featuresets"]),
    ]
    shown = {
        **answer,
        "part": part_of(entities, part),
        "some_branches": answer["branches"][:LONGEST],
        "all_branches": names,
        "spans": SPANS,
    }
    return page("unread", location, shown)


@router.get("/queries", dependencies=[READ_DATA])
def logged_queries_page(
    location: Location,
    answer: Annotated[LoggedQueries, Depends(logged_queries.logged_queries)],
    names: BranchNames,
    featureset: str = "",
) -> HTMLResponse:
    """The newest logged queries of a branch, or those that answered a featureset."""
    shown = {**answer, "featureset": featureset, "branches": names}
    return page("logged_queries", location, shown)


@router.get("/queries/{query}", dependencies=[READ_DATA])  # noqa: FAST003 - its twin takes the name
def logged_query_page(
    location: Location,
    answer: Annotated[LoggedQueryDetails, Depends(logged_queries.logged_query)],
) -> HTMLResponse:
    """One logged query: its values, the answer of now, and where each feature comes from."""
    return page("logged_query", location, answer)
