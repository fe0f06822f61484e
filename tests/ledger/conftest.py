"""A migrated ledger on a real PostgreSQL: one server a session, one database a test."""

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from narthex_ledger import migrate
from tests.ledger.world import World

TEMPLATE = "narthex_ledger_template"


@pytest.fixture(scope="session")
def migrated_dsn(new_postgres_dsn: Callable[[], str]) -> str:
    """Migrate one database, from which each test's is copied."""
    dsn = new_postgres_dsn()
    migrate(dsn)
    return dsn


@pytest.fixture
def ledger_dsn(migrated_dsn: str, request: pytest.FixtureRequest) -> str:
    """Copy the migrated database for one test."""
    template = sa.make_url(migrated_dsn)
    name = f"ledger_{abs(hash(request.node.nodeid)):x}"
    engine = sa.create_engine(
        template.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE "{template.database}"')
    return template.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    """Give a ledger with a tenant and a branch, and stores that are dictionaries."""
    made = World.open(ledger_dsn)
    yield made
    made.close()
