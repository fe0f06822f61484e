"""The beginning of a scenario runs once and is stored: every run starts with a copy."""

import copy
from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs
import sqlalchemy as sa

from narthex._ir.assets import AssetKind
from tests.crash.invariants import ObservedEvents
from tests.crash.points import Copies, Store

_TABLES = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
   AND relname <> 'alembic_version'
"""
_LET_ROWS_COME_IN_ANY_ORDER = """
DO $$ DECLARE statement text; BEGIN
  FOR statement IN
    SELECT 'ALTER TABLE ' || conrelid::regclass || ' ALTER CONSTRAINT ' || quote_ident(conname)
        || ' DEFERRABLE' FROM pg_constraint WHERE contype = 'f' AND NOT condeferrable
  LOOP EXECUTE statement; END LOOP;
END $$
"""
_SEQUENCES = """
SELECT sequencename, last_value FROM pg_sequences
 WHERE schemaname = 'public' AND last_value IS NOT NULL
"""


@attrs.frozen(kw_only=True)
class WorldState:
    """The state of a world besides its ledger."""

    stores: Mapping[AssetKind, Store]
    copies: Copies
    seconds: float
    past: ObservedEvents
    tampered: frozenset[str]
    outputs: Mapping[UUID, float]

    def copied(self) -> "WorldState":
        """Return one that can change without this one; nothing may be under way."""
        if self.copies.late or any(store.late for store in self.stores.values()):
            raise AssertionError("a call in flight cannot be stored")
        return copy.deepcopy(self)


@attrs.frozen(kw_only=True)
class Beginning:
    """A world as it was, of which copies are made.

    Attributes:
        back: The statements that bring the ledger back.
    """

    back: str
    _beside: WorldState

    @classmethod
    def keep(cls, connection: sa.Connection, beside: WorldState) -> "Beginning":
        """Keep the ledger's rows in a schema of their own, in the place of those before."""
        tables = list(connection.exec_driver_sql(_TABLES).scalars())
        statements = [
            _LET_ROWS_COME_IN_ANY_ORDER,
            "DROP SCHEMA IF EXISTS kept CASCADE",
            "CREATE SCHEMA kept",
        ]
        statements += [f"CREATE TABLE kept.{t} AS TABLE public.{t}" for t in tables]
        connection.exec_driver_sql("; ".join(statements))
        numbers = dict(map(tuple, connection.exec_driver_sql(_SEQUENCES)))
        return cls(back=_back(tables, numbers), beside=beside.copied())

    def again(self, connection: sa.Connection) -> WorldState:
        """Bring the ledger back; return a copy of what was beside it."""
        connection.exec_driver_sql(self.back)
        return self._beside.copied()


def _back(tables: Sequence[str], numbers: Mapping[str, int]) -> str:
    return "; ".join(
        [
            "SET CONSTRAINTS ALL DEFERRED",
            f"TRUNCATE {', '.join(tables)} RESTART IDENTITY",
            *(f"INSERT INTO {t} OVERRIDING SYSTEM VALUE TABLE kept.{t}" for t in tables),
            *(f"SELECT setval('{name}', {last})" for name, last in numbers.items()),
        ]
    )
