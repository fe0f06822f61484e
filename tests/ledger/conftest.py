"""A migrated ledger on a real PostgreSQL: one server a session, one database a test."""

from collections.abc import Iterator

import pytest

from tests.ledger.world import World


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    """Yield a ledger with a tenant and a branch, and stores that are a set of names."""
    made = World.open(ledger_dsn)
    yield made
    made.close()
