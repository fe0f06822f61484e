"""Statements on promotions."""

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import find_row
from narthex_ledger.db.schema import PROMOTION
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import PromotionRow
from narthex_ledger.model.states import PromotionState


def supersede(connection: Connection, branch_id: int) -> None:
    """Supersede every pending promotion of a locked branch by a later commit."""
    connection.execute(
        sa.update(PROMOTION)
        .where(
            PROMOTION.c.branch_id == branch_id,
            PROMOTION.c.state == PromotionState.PENDING.value,
        )
        .values(state=PromotionState.SUPERSEDED.value, decided_at=NOW)
    )


def insert_promotion(connection: Connection, commit_id: UUID, branch_id: int, policy: str) -> None:
    """Open a commit's promotion, in the transaction of its commit point."""
    connection.execute(
        sa.insert(PROMOTION).values(
            commit_id=commit_id,
            branch_id=branch_id,
            policy=policy,
            state=PromotionState.PENDING.value,
        )
    )


def lock_promotion(connection: Connection, commit_id: UUID) -> PromotionRow:
    """Lock a promotion FOR UPDATE: its approvals and flips are serialized."""
    statement = sa.select(PROMOTION).where(PROMOTION.c.commit_id == commit_id).with_for_update()
    row = find_row(PromotionRow, connection.execute(statement))
    if row is None:
        raise NotFound(f"commit `{commit_id}` has no promotion; it is not committed")
    return row


def find_promotion(connection: Connection, commit_id: UUID) -> PromotionRow | None:
    """Find a promotion; locks nothing."""
    statement = sa.select(PROMOTION).where(PROMOTION.c.commit_id == commit_id)
    return find_row(PromotionRow, connection.execute(statement))


def change_promotion(connection: Connection, commit_id: UUID, **values: object) -> None:
    """Change columns of a promotion that is locked."""
    connection.execute(
        sa.update(PROMOTION).where(PROMOTION.c.commit_id == commit_id).values(**values)
    )
