"""The reference engine, with authors' code called in this process."""

import pytest

from narthex.entities import Definitions
from narthex.workers.in_process import InProcessCalls
from narthex_reference import Reference
from narthex_reference.conformance import EngineFactory
from narthex_reference.worker_calls import WorkerCalls

_CALL = WorkerCalls(InProcessCalls())


def _reference(definitions: Definitions) -> Reference:
    return Reference(definitions, call=_CALL)


@pytest.fixture
def engine_factory() -> EngineFactory:
    """Give what makes references."""
    return _reference
