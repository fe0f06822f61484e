# mypy: disable-error-code="explicit-any"
"""The steps of pipelines with Fennel's arguments."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from narthex import datasets
from narthex.compat.errors import FennelError
from narthex.datasets import Groups, Rows

__all__ = ["pipeline"]


class _Steps:
    """Calls the methods of rows, or of groups."""

    def __init__(self, steps: Rows | Groups) -> None:
        self.plain = steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.plain, name)
        if not callable(found):
            return found

        @wraps(found)
        def step(*args: object, **given: object) -> object:
            plain = {name: _plain(one) for name, one in given.items()}
            return _adapted(found(*map(_plain, args), **plain))

        return step


class FennelRows(_Steps):
    """The rows of a step of a pipeline."""

    def __add__(self, other: object) -> object:
        if not isinstance(self.plain, Rows):
            return NotImplemented
        return _adapted(self.plain + _plain(other))

    def rename(self, columns: dict[str, str]) -> object:
        """Rename columns.

        Raises:
            FennelError: There are none.
        """
        if columns == {}:
            raise FennelError("invalid rename: must have at least one column to rename")
        return _adapted(_Steps(self.plain).rename(columns))


class FennelGroups(_Steps):
    """Rows in groups."""

    def aggregate(self, *specs: object, emit: object = "eager", **named: object) -> object:
        """Compute aggregates; `eager` is what Narthex does by default.

        In Fennel, a span of a tumbling or hopping window of `groupby` appears when it has ended,
        also with `emit="eager"`.
        """
        when = None if emit == "eager" else emit
        return _adapted(_Steps(self.plain).aggregate(*specs, emit=when, **named))


def _adapted(found: object) -> object:
    match found:
        case Rows():
            return FennelRows(found)
        case Groups():
            return FennelGroups(found)
        case _:
            return found


def _plain(given: object) -> Any:
    return given.plain if isinstance(given, _Steps) else given


def pipeline(
    func: Callable[..., object] | None = None, env: str | Sequence[str] | None = None
) -> Any:
    """Declare that a method of a dataset computes its rows.

    Raises:
        FennelError: It is not a function.
    """

    def declare(function: Callable[..., object]) -> object:
        if not callable(function):
            raise FennelError(f"`pipeline` got `{function!r}`; expected a function")

        @wraps(function)
        def run(*args: object, **given: object) -> object:
            return _plain(function(*map(_adapted, args), **given))

        return datasets.pipeline(env=env)(run)

    return declare if func is None else declare(func)
