"""What becomes of code that is only not repeatable: refused, or warned of where asked for."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from narthex.closure.rules import Breach, find_breaches

_LENIENT: Final[ContextVar[bool]] = ContextVar("narthex_lenient", default=False)


class NotRepeatable(UserWarning):
    """Code gives another answer when it is asked again; a platform refuses it."""


@contextmanager
def lenient() -> Iterator[None]:
    """Warn of code in the block that reads the clock or draws at random, instead of refusing it.

    For unit tests of code that was written elsewhere: a commit to a platform still refuses it.
    """
    token = _LENIENT.set(True)
    try:
        yield
    finally:
        _LENIENT.reset(token)


def breaches_of(source: str, what: str) -> Sequence[Breach]:
    """Give what a text may not do; inside `lenient`, warn of what is only not repeatable.

    Raises:
        SyntaxError: It is not Python.
    """
    found = find_breaches(source)
    if not _LENIENT.get():
        return found
    for breach in found:
        if breach.is_unrepeatable:
            text = f"{what} uses `{breach.what}`, which {breach.why}; a platform refuses that"
            warnings.warn(text, NotRepeatable, stacklevel=2)
    return tuple(breach for breach in found if not breach.is_unrepeatable)
