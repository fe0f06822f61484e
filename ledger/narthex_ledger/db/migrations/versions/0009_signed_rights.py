"""Signatures of tokens, offline queries, a branch's commits and the control log: `pre`.

Revision ID: 0009
"""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns of the signatures."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
