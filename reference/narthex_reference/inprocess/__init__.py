"""The client of authors' unit tests, and the fast engine behind it: all in their own process."""

from narthex_reference.inprocess.client import MockClient, log, mock
from narthex_reference.inprocess.engine import InProcessEngine

__all__ = ["InProcessEngine", "MockClient", "log", "mock"]
