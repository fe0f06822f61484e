"""Migrate a database to the newest schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from narthex_ledger.db.formats import NEWEST_SCHEMA, SCHEMAS, require_known
from narthex_ledger.errors import LedgerUnreachable

MIGRATION_LOCK = 0x6E617274
"""The advisory lock that lets one process migrate at a time."""

_MIGRATIONS: Final = Path(__file__).with_name("migrations")


@attrs.frozen
class SchemaChange:
    """The numbers of the schema of a database before and after a migration.

    Attributes:
        before: Empty if the database had no ledger.
    """

    before: str
    after: str

    @property
    def migrations(self) -> tuple[str, ...]:
        """The migrations from one to the other, each its number and title."""
        return tuple(
            f"{number} {title}"
            for number, title in SCHEMAS.items()
            if self.before < number <= self.after
        )


def migrate(dsn: str) -> SchemaChange:
    """Migrate the database to the newest schema, in one transaction; repeating it changes nothing.

    Several processes may call it at once: one migrates, the others wait and then have no work. If
    the process or its connection ends in between, nothing was changed.

    Raises:
        InstallationIsNewer: A later release migrated the database; nothing was changed.
        LedgerUnreachable: The database does not answer.
    """
    # Most processes that use a ledger never migrate it, and need not hold Alembic in memory.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = sa.create_engine(dsn, poolclass=sa.pool.NullPool)
    with _reached(), engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
        before = schema_number(connection)
        require_known(before)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return SchemaChange(before=before, after=NEWEST_SCHEMA)


def find_schema(dsn: str) -> str:
    """Find the number of a database's schema; empty if it has no ledger.

    Raises:
        LedgerUnreachable: The database does not answer.
    """
    engine = sa.create_engine(dsn, poolclass=sa.pool.NullPool)
    with _reached(), engine.connect() as connection:
        return schema_number(connection)


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        raise LedgerUnreachable("the ledger does not answer", detail=str(error.orig)) from error


def schema_number(connection: Connection) -> str:
    """Return the number of the schema of a connection's database; empty if it has no ledger."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return ""
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return str(found or "")
