"""Authors' unit tests: the interface of their client, and authors' code called in process."""

from narthex._testing.in_process import InProcessCalls, finder
from narthex._testing.unit_tests import TestClient

__all__ = [
    "InProcessCalls",
    "TestClient",
    "finder",
]
