"""`@includes`: kept so that code that was written with it runs."""

from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F")


def includes(*_: object) -> Callable[[_F], _F]:
    """Name functions that the decorated one calls.

    It does nothing: what a function reaches is found from its source and travels with it.
    """
    return lambda function: function
