"""Queries of more values than the server answers at once, asked in parts with fewer rows."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._server_calls.responses import ReadInfo
from narthex.errors import AnswerNotUnderstood, Refused

Answer: TypeAlias = tuple[dict[str, list[object]], ReadInfo | None]
"""The columns of an answer, and the data that they were read from."""

_R = TypeVar("_R")
_A = TypeVar("_A")
_CONFLICT: Final = 409
_ATTEMPTS: Final = 3


def greatest_rows(refusal: Refused) -> int:
    """Return how many rows of a refused query the server answers at once; 0 if it does not say."""
    detail = refusal.detail
    found = detail.get("greatest_rows") if isinstance(detail, dict) else None
    return found if isinstance(found, int) else 0


def ask_in_parts(
    ask: Callable[[dict[str, Json]], Generator[_R, _A, Answer]],
    query: Mapping[str, Json],
    *,
    most: int,
) -> Generator[_R, _A, Answer]:
    """Ask for at most so many rows at a time; return one answer, of one commit and one instant.

    Args:
        ask: Yields the requests of a query.
        query: Its body, with columns.
        most: The number of rows of a part.

    Raises:
        Refused: The server refuses a part, or commits were promoted meanwhile, time and again.
        AnswerNotUnderstood: The server does not say which commit it read.
    """
    for _ in range(_ATTEMPTS):
        found = yield from _of_one_commit(ask, query, most)
        if found is not None:
            return found
    raise Refused(
        "readers changed to other commits while the parts of the query were answered: ask again",
        status_code=_CONFLICT,
    )


def _of_one_commit(
    ask: Callable[[dict[str, Json]], Generator[_R, _A, Answer]],
    query: Mapping[str, Json],
    most: int,
) -> Generator[_R, _A, Answer | None]:
    """Ask for all parts; return None if their commits differ."""
    answers: dict[str, list[object]] = {}
    first: ReadInfo | None = None
    rest = dict(query)
    for part in _parts(query["data"], most):
        columns, read = yield from ask(rest | {"data": part})
        if read is None:
            raise AnswerNotUnderstood("the answer does not have the commit that was read")
        if first is None:
            # The later parts are asked as of the instant of the first one.
            first = read
            rest = {name: value for name, value in query.items() if name != "after"}
            rest["as_of"] = render_instant(read.as_of_us)
        elif read.commit_id != first.commit_id:
            return None
        for name, values in columns.items():
            answers.setdefault(name, []).extend(values)
    return answers, first


def _parts(columns: Json, most: int) -> Iterator[dict[str, Json]]:
    if not isinstance(columns, dict):
        raise TypeError("the query has no columns")
    named: dict[str, Sequence[Json]] = {
        name: values for name, values in columns.items() if isinstance(values, list)
    }
    rows = max(map(len, named.values()), default=0)
    for start in range(0, rows, most):
        yield {name: list(values[start : start + most]) for name, values in named.items()}
