# mypy: disable-error-code="type-arg, explicit-any"
"""Unit tests of definitions, in the author's own process: no server, no broker, no waiting.

The implementation is found by the entry point group `narthex.testing`; the wheel `narthex` has it.
"""

from collections.abc import Callable
from importlib import metadata
from math import isnan
from typing import Final, Protocol

import pandas as pd

from narthex._sdk.datasets.datasets import Dataset
from narthex._testing.unit_tests import Clock, TestClient
from narthex.client import Response

__all__ = ["Clock", "MockClient", "TestClient", "almost_equal", "log", "mock"]

GROUP: Final = "narthex.testing"


class _Implementation(Protocol):
    """The implementation behind the entry point."""

    MockClient: type[TestClient]

    def mock(self, test: Callable[..., object]) -> Callable[..., object]: ...

    def log(self, dataset: Dataset, df: pd.DataFrame) -> Response: ...


def _implementation() -> _Implementation:
    """Load the implementation.

    Raises:
        ImportError: No implementation is installed.
    """
    for entry_point in metadata.entry_points(group=GROUP):
        loaded: _Implementation = entry_point.load()
        return loaded
    raise ImportError(
        "`narthex.testing` finds no in-process client, so the installation is incomplete; "
        "install it again with `pip install --force-reinstall narthex`"
    )


def almost_equal(a: float, b: float, epsilon: float = 1e-6) -> bool:
    """Whether two numbers differ by less than `epsilon`, or are both NaN."""
    return (isnan(a) and isnan(b)) or abs(a - b) < epsilon


_FOUND: Final = _implementation()

MockClient: Final = _FOUND.MockClient
mock: Final = _FOUND.mock
log: Final = _FOUND.log
