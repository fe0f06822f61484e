"""Tokens with an id, branches and an end; the chained log of what was asked for; secrets: `pre`.

Revision ID: 0003
"""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the ledger keep who may do what, what was done, and what is secret."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
