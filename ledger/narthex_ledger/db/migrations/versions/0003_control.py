"""Tokens with an id, branches and an expiry; the chained control log; secrets: `pre`.

Revision ID: 0003
"""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables and columns of tokens, the control log and secrets."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
