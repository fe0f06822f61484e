"""The Data Docs: pages of Great Expectations about suites and validation results, as files.

They show the suites of all branches. `narthex audit` and the quality gates of commits write them.
"""

import re
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from narthex._analysis import suite_name
from narthex_server.console.page_routes import Location, PageRoute
from narthex_server.console.rendering import HEADERS, page
from narthex_server.errors import Missing
from narthex_server.security.dataset_access import Access
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ServicesDep

router = APIRouter(prefix="/console", route_class=PageRoute)

INDEX: Final = "index.html"
_PART: Final = re.compile(r"[A-Za-z0-9_~:@-][A-Za-z0-9_~:@. -]*")
"""A part of the path of a page: no hidden file, no separator and no directory above."""

_HEADERS: Final = {
    **HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'; sandbox allow-same-origin"
    ),
}
"""The headers of a page, which names what authors have written: it can load and run nothing."""

READ_ALL = requires(Right.READ_DEFINITIONS, extent=Extent.INSTALLATION)


@router.get("/data-docs", dependencies=[READ_ALL])
def front(location: Location) -> RedirectResponse:
    """Redirect to the index, below which its links work."""
    return RedirectResponse(f"{location.root}console/data-docs/{INDEX}", status_code=303)


@router.get("/data-docs/{path:path}", dependencies=[READ_ALL])
def data_docs_page(location: Location, services: ServicesDep, path: str) -> Response:
    """A page of the Data Docs; before the first validation, a page that says so."""
    found = _content(services.settings.data_docs_dir, path)
    if found is not None:
        return HTMLResponse(found, headers=_HEADERS)
    if path == INDEX:
        return page("data_docs", location, {})
    raise Missing(f"the Data Docs have no page `{path}`")


def suite_page(directory: Path, branch: str, entity: str) -> str:
    """Return the path of the page of a suite, or that of the index if it has none.

    Args:
        directory: The directory of the Data Docs.
        branch: The branch.
        entity: A featureset, or a dataset with its version.
    """
    path = f"expectations/{suite_name(branch, entity)}.html"
    return INDEX if _content(directory, path) is None else path


def may_see_data_docs(access: Access) -> bool:
    """Return whether a principal who reads definitions may see those of all branches."""
    return not access.principal.is_narrow


def _content(directory: Path, path: str) -> bytes | None:
    """Return a page; None if there is none inside the directory."""
    parts = path.split("/")
    if not path.endswith(".html") or not all(_PART.fullmatch(part) for part in parts):
        return None
    try:
        found = directory.joinpath(*parts).resolve(strict=True)
        is_inside = found.is_relative_to(directory.resolve())
        return found.read_bytes() if is_inside else None
    except OSError:  # it is missing, or no audit has made such a name
        return None
