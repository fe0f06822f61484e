"""Statements on the versions of the formats of stores."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.schema import STORE_FORMAT
from narthex_ledger.db.statements.commits import NOW


def recorded_formats(connection: Connection, *, locked: bool = False) -> dict[str, int]:
    """Return the recorded version of each kind of store, by kind; with `locked`, lock the rows."""
    statement = sa.select(STORE_FORMAT.c.kind, STORE_FORMAT.c.version)
    rows = connection.execute(statement.with_for_update() if locked else statement)
    return {str(kind): int(version) for kind, version in sorted(tuple(row) for row in rows)}


def put_formats(connection: Connection, versions: Mapping[str, int]) -> None:
    """Record versions; a version that is recorded already can only grow."""
    for kind, version in sorted(versions.items()):
        row = insert(STORE_FORMAT).values(kind=kind, version=version, recorded_at=NOW)
        connection.execute(
            row.on_conflict_do_update(
                index_elements=[STORE_FORMAT.c.kind],
                set_={"version": version, "recorded_at": NOW},
                where=STORE_FORMAT.c.version < version,
            )
        )
