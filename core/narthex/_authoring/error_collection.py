"""Raise definition errors together, or collect them across a file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from narthex.errors import DefinitionError, DefinitionErrors, in_source_order, raise_all

_T = TypeVar("_T")
_COLLECTED: ContextVar[list[DefinitionError] | None] = ContextVar("narthex_mistakes", default=None)


@contextmanager
def collecting() -> Iterator[list[DefinitionError]]:
    """Collect definition errors in the block instead of raising them.

    A definition with errors still exists in the block, so that the next ones can be read; it must
    not be used for anything else.
    """
    found: list[DefinitionError] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    except DefinitionErrors as errors:
        found.extend(errors.exceptions_flat())
    except DefinitionError as error:
        found.append(error)
    finally:
        _COLLECTED.reset(token)
        # A mistake in a file that several definitions use is found by each of them.
        unlike = {(type(one), one.message, one.origin, one.hint): one for one in reversed(found)}
        found[:] = in_source_order(reversed(unlike.values()))


def report(errors: Sequence[DefinitionError]) -> None:
    """Raise errors, or add them to the active collector.

    Raises:
        DefinitionErrors: There are errors, and no collector is active.
    """
    collected = _COLLECTED.get()
    if collected is None:
        raise_all(errors)
    else:
        collected.extend(errors)


class Reader:
    """Reads arguments one by one and records the errors of each."""

    def __init__(self) -> None:
        self.errors: list[DefinitionError] = []

    def read(self, part: Callable[[], _T]) -> _T | None:
        """Return the value that `part` reads; on failure, record an error and return None."""
        try:
            return part()
        except DefinitionErrors as errors:
            self.errors += errors.exceptions_flat()
        except DefinitionError as error:
            self.errors.append(error)
        return None
