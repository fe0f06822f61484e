"""Run every transaction of the ledger, with retries and fault hooks."""

import datetime as dt
import enum
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from narthex._base import Backoff
from narthex_ledger.db.listening import Listener
from narthex_ledger.errors import Contended, LedgerUnreachable, OutcomeUnknown, UnsafeSession

_T = TypeVar("_T")

ATTEMPTS = 5
"""How many times a transaction is tried when it loses a race or its connection."""

RETRIES = Backoff(first_s=0.05, greatest_s=0.4)

POOL_WAIT_S = 30.0
"""How long a transaction waits for one of the process's connections."""

_LOST_RACE = frozenset({"40001", "40P01", "55P03", "23505"})
_SESSION = {
    "default_transaction_isolation": r"read\ committed",
    "synchronous_commit": "on",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "15s",
    "timezone": "UTC",
    "client_min_messages": "warning",
}


class Moment(enum.Enum):
    """The points of a transaction at which a process may crash."""

    BEFORE_BEGIN = "before_begin"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


FaultHook = Callable[[str, Moment], None]
"""Called at each moment of each transaction, with the transaction's name; tests may raise there."""


class LostRace(Exception):
    """Concurrent modification; the whole transaction restarts."""


class BrokenConnection(Exception):
    """Raised by a fault hook: the connection broke here; at AFTER_COMMIT, the answer was lost."""


def no_faults(_name: str, _moment: Moment) -> None:
    """Inject no fault."""


class Transactions:
    """Runs work in READ COMMITTED transactions, and retries it when it loses a race.

    Work may run several times, so it must change nothing but the database.
    """

    def __init__(self, dsn: str, *, clock_shift: dt.timedelta, fault_hook: FaultHook) -> None:
        session = _SESSION | {"narthex.clock_shift": rf"{clock_shift.total_seconds()}\ s"}
        options = " ".join(f"-c {name}={value}" for name, value in session.items())
        self._fault_hook = fault_hook
        self._engine = sa.create_engine(
            dsn,
            pool_pre_ping=True,
            pool_size=5,
            max_overflow=15,
            pool_timeout=POOL_WAIT_S,
            connect_args={"options": options, "application_name": "narthex-ledger"},
        )
        sa.event.listen(self._engine, "connect", _assert_safe)

    def run(self, name: str, work: Callable[[Connection], _T]) -> _T:
        """Run the work and commit.

        Raises:
            Contended: Every retry lost a race; nothing was changed.
            OutcomeUnknown: The connection broke while committing, every time.
            LedgerUnreachable: The database does not answer, or not in time; nothing was changed.
        """
        try:
            return RETRIES.retry(
                lambda: self._once(name, work), may_retry=_may_retry, most=ATTEMPTS
            )
        except (LostRace, OutcomeUnknown, BrokenConnection, DBAPIError) as error:
            if not _may_retry(error) and not isinstance(error, OperationalError):
                raise
            raise _given_up(name, error) from error

    def dry_run(self, name: str, work: Callable[[Connection], _T]) -> _T:
        """Run the work and roll back; return the result that `run` would have returned."""

        def once() -> _T:
            with self._connected() as connection:
                return work(connection)

        try:
            return RETRIES.retry(once, may_retry=_has_lost_race, most=ATTEMPTS)
        except LostRace as error:
            raise Contended(f"`{name}` lost every race") from error
        except OperationalError as error:
            raise _given_up(name, error) from error

    def listener(self, channel: str) -> Listener:
        """Return a listener of a channel, which has a connection of its own."""
        return Listener(self._engine, channel)

    def close(self) -> None:
        """Release all connections."""
        self._engine.dispose()

    def _connected(self) -> Connection:
        """Take a connection from the pool, or open one."""
        try:
            return self._engine.connect()
        except OperationalError as error:
            raise LedgerUnreachable("the ledger does not answer", detail=str(error.orig)) from error
        except PoolTimeout as error:
            raise LedgerUnreachable(
                "no connection to the ledger was free", detail=str(error)
            ) from error

    def _once(self, name: str, work: Callable[[Connection], _T]) -> _T:
        self._fault_hook(name, Moment.BEFORE_BEGIN)
        with self._connected() as connection:
            result = work(connection)
            self._fault_hook(name, Moment.BEFORE_COMMIT)
            try:
                connection.commit()
                self._fault_hook(name, Moment.AFTER_COMMIT)
            except BrokenConnection:
                connection.invalidate()
                raise OutcomeUnknown(f"`{name}` was not answered") from None
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise OutcomeUnknown(f"`{name}` was not answered") from error
                raise
            return result


def _has_lost_race(error: Exception) -> bool:
    return isinstance(error, LostRace)


def _may_retry(error: Exception) -> bool:
    if not isinstance(error, DBAPIError):
        return isinstance(error, LostRace | OutcomeUnknown | BrokenConnection)
    return error.connection_invalidated or getattr(error.orig, "pgcode", None) in _LOST_RACE


def _given_up(name: str, error: Exception) -> Exception:
    if isinstance(error, OutcomeUnknown):
        return error
    if isinstance(error, DBAPIError) and (error.connection_invalidated or not _may_retry(error)):
        return LedgerUnreachable(f"`{name}` was not answered", detail=str(error.orig))
    return Contended(f"`{name}` was tried {ATTEMPTS} times", detail=str(error))


def _assert_safe(dbapi_connection: object, _record: object) -> None:
    cursor = dbapi_connection.cursor()  # type: ignore[attr-defined]
    cursor.execute(
        "SELECT current_setting('default_transaction_isolation'), pg_is_in_recovery(),"
        " current_setting('synchronous_commit')"
    )
    isolation, standby, durable = cursor.fetchone()
    cursor.close()
    dbapi_connection.rollback()  # type: ignore[attr-defined]
    if isolation != "read committed" or standby or durable == "off":
        raise UnsafeSession(
            "the ledger needs the primary, READ COMMITTED and synchronous commits",
            detail=[isolation, standby, durable],
        )
