"""The pages of what is used: what no query has read for some time."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from narthex_server.catalog import unread
from narthex_server.catalog.unread import Unread
from narthex_server.console.list_parts import LONGEST, PartNumber, part_of
from narthex_server.console.page_routes import Location, PageRoute
from narthex_server.console.pages import READ, BranchNames
from narthex_server.console.rendering import page

router = APIRouter(prefix="/console", route_class=PageRoute)

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
