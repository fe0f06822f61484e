"""The reference engine, with authors' code called in this process."""

import pytest

from narthex_reference.conformance import EngineFactory
from narthex_reference.engines import reference


@pytest.fixture
def engine_factory() -> EngineFactory:
    """Return what makes references."""
    return reference
