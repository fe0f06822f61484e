"""A pytest plugin: the fixture `mock_client`.

pytest loads it in every run, so what it needs is loaded by the first test that uses it.
"""

import importlib

import pytest


@pytest.fixture
def mock_client() -> object:
    """Return a client of `narthex.testing` with no commits."""
    made: object = importlib.import_module("narthex.testing").MockClient()
    return made
