# mypy: disable-error-code="explicit-any"
"""Wait for notifications of the database, which transactions send when they commit."""

import contextlib
import select
import socket
from typing import Any, Final

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from narthex_ledger.errors import LedgerUnreachable

BRANCHES: Final = "narthex_branches"
"""The channel of changes of branches; migration 0013 announces them."""


class Listener:
    """Listens on a channel, with a connection of its own.

    One thread waits; any thread may interrupt it.
    """

    def __init__(self, engine: Engine, channel: str) -> None:
        """Connect on first use."""
        self._engine = engine
        self._channel = channel
        self._connection: Any = None
        self._interrupted, self._interrupting = socket.socketpair()

    def wait(self, timeout_s: float) -> bool:
        """Return whether there may be news: a notification came, or it has only begun to listen.

        Args:
            timeout_s: How long it waits at most; less if it is interrupted.

        Raises:
            LedgerUnreachable: The database does not answer; the next call connects again.
        """
        try:
            if self._connection is None:
                self._connection = self._connected()
                return True
            if not self._is_readable(timeout_s):
                return False
            self._connection.poll()
            self._connection.notifies.clear()
        except (self._driver_error, DBAPIError, OSError) as error:
            self._disconnect()
            raise LedgerUnreachable("the ledger does not answer", detail=str(error)) from error
        return True

    def interrupt(self) -> None:
        """End the wait of another thread, and let those after it not wait."""
        self._interrupting.send(b"\0")

    def close(self) -> None:
        """Close the connection, for good."""
        self._disconnect()
        self._interrupted.close()
        self._interrupting.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(self._driver_error):
                self._connection.close()
            self._connection = None

    def _is_readable(self, timeout_s: float) -> bool:
        # `select` refuses descriptors from 1,024 on, which a server with many connections has.
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._interrupted, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(timeout_s * 1000.0)}
        return self._connection.fileno() in ready

    @property
    def _driver_error(self) -> type[Exception]:
        error: type[Exception] = self._engine.dialect.dbapi.Error  # type: ignore[union-attr]
        return error

    def _connected(self) -> Any:
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.rollback()
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {self._channel}")
        return connection
