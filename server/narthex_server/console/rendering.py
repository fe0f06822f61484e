"""Rendering of the API's answers as pages: every value escaped, no resources of other sites."""

import base64
import datetime as dt
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final
from urllib.parse import quote, urlencode

import attrs
from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from narthex._base import Json, render_size

REFRESH_S = 5

_POLICY: Final = "Content-Security-Policy"

HEADERS: Final[Mapping[str, str]] = {
    _POLICY: (
        "default-src 'none'; style-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page: no resources of other sites, no framing by them.

A page may run the scripts of ours that it has, and no other.
"""


@attrs.frozen
class PageScript:
    """A script of ours inside a page: the browser runs this text only, by its hash."""

    text: str

    @property
    def source(self) -> str:
        """The hash of the script, as the header `Content-Security-Policy` names it."""
        digest = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


def _script(name: str) -> PageScript:
    return PageScript(files("narthex_server.console").joinpath(name).read_text(encoding="utf-8"))


SEARCH_SCRIPT: Final = _script("search.js")
"""Goes to the field of the search by a key; without it, the field is reached as any other."""

_WITHOUT_SEARCH: Final = frozenset({"command_line", "refused", "sign_in", "signed_in"})
"""The templates of pages that have no field of the search."""

LINEAGE_SCRIPT: Final = _script("lineage.js")
"""Enlarges and moves the picture of the lineage; without it, the picture scrolls."""

_GOOD: Final = frozenset(
    {
        "CERTIFIED",
        "COMMITTED",
        "DONE",
        "FINALIZED",
        "active",
        "caught_up",
        "live",
        "running",
        "success",
    }
)
_BAD: Final = frozenset(
    {"ABORTED", "ABORTING", "REJECTED", "critical", "deleted", "failed", "quarantined"}
)

PAGES: Final = (
    "commits",
    "waiting",
    "branches",
    "assets",
    "jobs",
    "metrics",
    "lineage",
    "datasets",
    "features",
    "audits",
    "drift",
    "alerts",
    "erasures",
    "connections",
)
"""The pages of the navigation, in its order."""

_NOT_IN_AIRFLOW: Final = frozenset({"erasures", "connections"})
"""Pages that need more than Airflow's token has."""


@attrs.frozen(kw_only=True)
class PageLocation:
    """The location of a page; its links work below any prefix.

    Attributes:
        path: The page's path, such as `/console/commits`.
        branch: The branch that the page is about.
        embedded: Whether the page is shown inside Airflow, which has signed the person in.
        weakness: The missing layers of the sandbox of authors' code; empty if it is complete.
    """

    path: str
    branch: str
    embedded: bool = False
    weakness: str = ""

    @property
    def root(self) -> str:
        """The relative path up to the common parent of the console and the API."""
        return "../" * (self.path.count("/") - 1)

    @property
    def name(self) -> str:
        """The page's name in the navigation."""
        parts = self.path.strip("/").split("/")
        return parts[1] if len(parts) > 1 else PAGES[0]

    def to(self, page: str, *parts: object, **query: object) -> str:
        """Return the address of a page of this branch."""
        return self._address("/".join(("console", page, *map(str, parts))), query)

    def twin(self, path: str, **query: object) -> str:
        """Return the address of an answer of the API about this branch."""
        return self._address(f"api/v1/{path}", query)

    def _address(self, path: str, query: Mapping[str, object]) -> str:
        parameters = {name: str(value) for name, value in query.items() if value not in {None, ""}}
        parameters = {"branch": self.branch} | parameters
        return f"{self.root}{quote(path)}?{urlencode(parameters)}"


def page(
    template: str,
    place: PageLocation,
    shown: Mapping[str, object],
    *,
    status: int = 200,
    refresh: bool = False,
    script: PageScript | None = None,
) -> HTMLResponse:
    """Render a page from a template; with `refresh`, a browser reloads it by itself.

    A page runs its `script` and the one of the search's field only.
    """
    scripts = [] if template in _WITHOUT_SEARCH else [SEARCH_SCRIPT]
    scripts += [] if script is None else [script]
    pages = [name for name in PAGES if not (place.embedded and name in _NOT_IN_AIRFLOW)]
    text = _ENVIRONMENT.get_template(f"{template}.html").render(
        dict(shown),
        place=place,
        pages=pages,
        refresh_s=REFRESH_S if refresh else None,
        scripts=[one.text for one in scripts],
    )
    headers = dict(HEADERS)
    if scripts:
        headers[_POLICY] += f"; script-src {' '.join(one.source for one in scripts)}"
    return HTMLResponse(text, status_code=status, headers=headers)


def style_sheet() -> Response:
    """Return the stylesheet of all pages."""
    text = files("narthex_server.console").joinpath("console.css").read_text(encoding="utf-8")
    return Response(
        text, media_type="text/css", headers={"Cache-Control": "no-cache"} | _NOT_GUESSED
    )


_PYTHON: Final = PythonLexer(stripnl=False)
_SPANS: Final = HtmlFormatter(nowrap=True)
_NOT_GUESSED: Final = {"X-Content-Type-Options": "nosniff"}


def when(instant: Json) -> str:
    """Render an instant to the second, in UTC; empty for null."""
    if not isinstance(instant, str) or not instant:
        return ""
    at = dt.datetime.fromisoformat(instant).astimezone(dt.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def short(identifier: Json) -> str:
    """Return the first digits of an id or a hash."""
    return str(identifier or "")[:8]


def mood(state: str) -> str:
    """Return whether a state is good, bad, or in progress."""
    return "good" if state in _GOOD else "bad" if state in _BAD else "wait"


def python(code: str) -> Markup:
    """Render Python with its parts in elements of classes, everything escaped."""
    return Markup(highlight(code, _PYTHON, _SPANS))  # noqa: S704 - Pygments escapes the text


def number(value: Json) -> str:
    """Render a count with separated thousands; empty for null."""
    return f"{value:,}" if isinstance(value, int | float) else ""


def size(value: Json) -> str:
    """Render bytes in the unit of their magnitude; empty for null."""
    return render_size(value) if isinstance(value, int) else ""


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("narthex_server.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "when": when,
    "short": short,
    "mood": mood,
    "number": number,
    "python": python,
    "size": size,
}
