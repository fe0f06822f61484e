"""`@includes`, kept for compatibility with existing code."""

from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F")


def includes(*_: object) -> Callable[[_F], _F]:
    """Name functions that the decorated one calls.

    It has no effect: the names that a function uses are found in its source and carried with it.
    """
    return lambda function: function
