"""Migrate a database to the newest schema."""

from pathlib import Path

import sqlalchemy as sa

MIGRATION_LOCK = 0x6E617274
"""The advisory lock that lets one process migrate at a time."""


def migrate(dsn: str) -> None:
    """Migrate the database to the newest schema, in one transaction; repeating it changes nothing.

    Several processes may call it at once: one migrates, the others wait and then have no work.
    """
    # Most processes that use a ledger never migrate it, and need not hold Alembic in memory.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    engine = sa.create_engine(dsn, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
