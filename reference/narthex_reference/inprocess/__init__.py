"""The client of authors' unit tests, and the fast engine behind it: all in their own process."""

from collections.abc import Sequence

from narthex._ir import Definitions
from narthex._runtime.steps import FailedRow
from narthex._testing import InProcessCalls
from narthex_reference.inprocess.client import MockClient, log, mock
from narthex_reference.inprocess.engine import InProcessEngine

__all__ = ["InProcessEngine", "MockClient", "engine_of", "log", "mock"]


def engine_of(definitions: Definitions) -> InProcessEngine:
    """Make an engine for definitions, to be compared with another: it sets failed rows apart."""
    return InProcessEngine(definitions, calls=InProcessCalls(), set_apart=_forget)


def _forget(failed: Sequence[FailedRow]) -> None:
    """Drop rows on which code failed: the comparison is about the others."""
