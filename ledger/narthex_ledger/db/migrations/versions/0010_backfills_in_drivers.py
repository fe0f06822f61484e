"""Backfills that a running driver carries out: `pre`.

Revision ID: 0010
"""

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table of the requests."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
