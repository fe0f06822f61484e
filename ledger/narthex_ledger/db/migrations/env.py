"""Alembic's entry point: runs the migrations on the connection that `migrate` passes."""

from alembic import context

from narthex_ledger.db.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
