"""Signatures that are renewed when the signing key is rotated: `pre`.

Revision ID: 0021
"""

from pathlib import Path

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and let guards pass new signatures."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
