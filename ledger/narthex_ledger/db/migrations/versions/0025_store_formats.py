"""The versions of the formats of stores: `pre`.

Revision ID: 0025
"""

from pathlib import Path

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Record the version of the format of logs, indexes, histories and states of jobs."""
    statements = Path(__file__).with_suffix(".sql").read_text()
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
