"""HTML of what the client returns, for notebooks; all text in it is escaped."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from narthex._base.records import Json

MOST_ROWS: Final = 20
"""How many rows of a list are shown."""

_LEAST_CONTROL: Final = frozenset("\n\t")
_COMMIT: Final = (
    *("commit_id", "branch", "seq", "state", "promotion", "kind", "message", "actor"),
    *("accepted_at", "committed_at", "finished_at", "error"),
)


def view_of_body(body: Mapping[str, Json]) -> str:
    """Return a plan as its lines, a commit as its facts, another body as its parts."""
    summary = body.get("summary")
    if isinstance(body.get("report"), dict) and isinstance(summary, list):
        return lines_view(summary)
    if "commit_id" in body and "state" in body:
        return _commit_view(body)
    return facts_view(body.items())


def facts_view(facts: Iterable[tuple[str, object]]) -> str:
    """Return names and values as a table of two columns; without values that are missing."""
    rows = [
        f'<tr><th style="text-align: left">{_text(name)}</th>'
        f'<td style="text-align: left">{_text(value)}</td></tr>'
        for name, value in facts
        if value is not None and value not in ("", [], {})
    ]
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def rows_view(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return the first rows as a table, and the number of those that are left out."""
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    shown = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows[:MOST_ROWS]
    )
    left = len(rows) - MOST_ROWS
    more = f"<p>and {left} more</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"


def lines_view(lines: Iterable[object]) -> str:
    """Return lines of text as they are."""
    text = "\n".join(map(_text, lines))
    return f"<pre>{text}</pre>"


def _commit_view(body: Mapping[str, Json]) -> str:
    facts = facts_view((name.replace("_", " "), body.get(name)) for name in _COMMIT)
    return "".join((facts, *_assets(body.get("assets")), *_reasons(body.get("waits_for"))))


def _assets(assets: Json) -> Iterator[str]:
    found = [one for one in assets if isinstance(one, dict)] if isinstance(assets, list) else []
    if found:
        columns = ("label", "state", "last_error")
        rows = [[one.get(name) for name in columns] for one in found]
        yield rows_view(("asset", "state", "error"), rows)


def _reasons(reasons: Json) -> Iterator[str]:
    if isinstance(reasons, list) and reasons:
        yield f"<p>waits for</p>{lines_view(reasons)}"


def _text(value: object) -> str:
    """Return a value as text that is neither markup nor changes the order of what is around it."""
    if isinstance(value, list | tuple):
        shown = ", ".join(map(str, value))
    else:
        shown = "" if value is None else str(value)
    return escape("".join(_visible(one) for one in shown))


def _visible(character: str) -> str:
    if character.isprintable() or character in _LEAST_CONTROL:
        return character
    return character.encode("unicode_escape").decode()
