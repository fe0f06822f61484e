"""Whether what is doubtful, but harms no unit test, is refused or only warned of."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LENIENT: Final[ContextVar[bool]] = ContextVar("narthex_lenient", default=False)


class ToleratedWarning(UserWarning):
    """Something that a platform refuses, let pass in a unit test."""


@contextmanager
def tolerant() -> Iterator[None]:
    """Warn inside the block of what is doubtful, instead of refusing it.

    For unit tests of code that was written elsewhere: code that reads the clock or draws at
    random, and a lookup by a feature of another type than the key. A platform refuses both.
    """
    token = _LENIENT.set(True)
    try:
        yield
    finally:
        _LENIENT.reset(token)


def is_tolerated(doubt: str) -> bool:
    """Whether something doubtful may pass; it is warned of then."""
    if _LENIENT.get():
        warnings.warn(f"{doubt}; a platform refuses that", ToleratedWarning, stacklevel=2)
    return _LENIENT.get()
