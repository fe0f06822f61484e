"""Lookups that an author's extractor makes while it runs.

The engine that runs an extractor provides the lookup of rows; a definition only names the dataset.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import attrs

from narthex.errors import LookupImpossible

Column = object
"""A pandas Series, in the author's hands."""


class Finder(Protocol):
    """Finds rows of datasets as of instants."""

    def __call__(
        self, dataset: str, instants: Column, keys: Mapping[str, Column], fields: Sequence[str]
    ) -> tuple[object, object]:
        """Return a frame of the fields, and a column that marks the found keys."""


_FINDER: ContextVar[Finder | None] = ContextVar("narthex_finder", default=None)


@contextmanager
def finding_with(finder: Finder) -> Iterator[None]:
    """Answer lookups inside the block with `finder`."""
    token = _FINDER.set(finder)
    try:
        yield
    finally:
        _FINDER.reset(token)


_OUTSIDE: ContextVar[Callable[[], Finder | None] | None] = ContextVar(
    "narthex_finder_outside", default=None
)


def found_outside_by(finder: Callable[[], Finder | None]) -> None:
    """Answer lookups outside any block with the result of `finder`, while it returns one."""
    _OUTSIDE.set(finder)


def _finder() -> Finder | None:
    outside = _OUTSIDE.get()
    return _FINDER.get() or (None if outside is None else outside())


@attrs.frozen
class DatasetReference:
    """A dataset by name, in code that runs on a platform."""

    name: str

    def lookup(
        self, ts: Column, *, fields: Sequence[str] = (), **keys: Column
    ) -> tuple[object, object]:
        """Return the dataset's rows as of `ts`: a frame of `fields`, and which were found.

        Raises:
            LookupImpossible: The call is outside an extractor.
        """
        finder = _finder()
        if finder is None:
            raise LookupImpossible(
                f"`{self.name}.lookup` was called outside an extractor",
                hint="call it in an extractor that names it in `deps`, or use `client.lookup`",
            )
        return finder(self.name, ts, keys, fields)


def reference(name: str) -> DatasetReference:
    """Return the reference to a dataset; resolved source text binds datasets by calling this."""
    return DatasetReference(name)
