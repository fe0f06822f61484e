"""Connections that definitions name, sealed: `pre`.

Revision ID: 0017
"""

from pathlib import Path

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.get_bind().exec_driver_sql(Path(__file__).with_suffix(".sql").read_text())
