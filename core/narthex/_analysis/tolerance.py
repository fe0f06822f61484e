"""Whether a doubtful construct that is harmless in unit tests raises an error or a warning."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LENIENT: Final[ContextVar[bool]] = ContextVar("narthex_lenient", default=False)


class ToleratedWarning(UserWarning):
    """A construct that a platform refuses and a unit test tolerates."""


@contextmanager
def tolerant() -> Iterator[None]:
    """Warn of doubtful constructs inside the block instead of refusing them.

    For unit tests of code that was written for another platform: code that reads the clock or
    draws at random, and a lookup by a feature of another type than the key. A platform refuses
    both.
    """
    token = _LENIENT.set(True)
    try:
        yield
    finally:
        _LENIENT.reset(token)


def is_tolerated(doubt: str) -> bool:
    """Whether a doubtful construct passes; it then emits a warning."""
    if _LENIENT.get():
        warnings.warn(f"{doubt}; the platform refuses that", ToleratedWarning, stacklevel=2)
    return _LENIENT.get()
