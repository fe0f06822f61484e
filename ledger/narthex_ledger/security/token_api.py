"""The parts of the ledger for tokens, the control log and secrets."""

import datetime as dt
import hashlib
import secrets
from collections.abc import Mapping

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import control_plane as on_control
from narthex_ledger.model.access_views import (
    BrokenLog,
    LogEntry,
    LogHead,
    TokenSuccessor,
    TokenView,
)
from narthex_ledger.security import control_log, tokens
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import token_statement


@attrs.frozen
class Tokens:
    """API tokens; each method is one transaction."""

    _db: LedgerDatabase

    def put(  # noqa: PLR0913 - a token has these parts
        self,
        token: str,
        *,
        name: str,
        scopes: tuple[str, ...],
        branches: tuple[str, ...] = ("*",),
        tags: tuple[str, ...] = ("*",),
        lifetime: dt.timedelta | None = None,
        token_id: str = "",
        actor: str = "platform",
    ) -> None:
        """Store a token's rights; of the token only the hash is stored."""
        view = TokenView(
            token_id=token_id or secrets.token_hex(8),
            name=name,
            scopes=scopes,
            branches=branches,
            tags=tags,
            expires_at=None,
            created_by=actor,
        )
        digest = hashlib.sha256(token.encode()).digest()

        def work(connection: Connection) -> None:
            signed = attrs.evolve(view, expires_at=on_control.expiry(connection, lifetime))
            signature = self._db.attest(token_statement(digest, signed))
            on_control.put_token(connection, digest, signed, signature=signature)

        self._db.run("put_token", work)

    def get(self, token: str) -> TokenView | None:
        """Find the rights of a token that is neither expired nor revoked.

        Raises:
            NotSigned: The row was written or changed without the installation's key.
        """
        digest = hashlib.sha256(token.encode()).digest()
        row = self._db.run("token", lambda c: on_control.token_row(c, digest))
        if row is None:
            return None
        view = tokens.token_view(row)
        self._db.checker.token(digest, view, row.signature)
        return view

    def all(self) -> tuple[TokenView, ...]:
        """List all tokens, the newest first, including expired and revoked ones."""
        return tuple(map(tokens.token_view, self._db.run("tokens", on_control.token_rows)))

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        digest = hashlib.sha256(token.encode()).digest()
        self._db.run("revoke_token", lambda c: on_control.revoke(c, token_sha256=digest))

    def revoke_by_id(self, token_id: str) -> None:
        """Revoke a token by its id.

        Raises:
            NotFound: No token has that id.
        """
        self._db.run("revoke_token_id", lambda c: tokens.revoke(c, token_id))

    def rotate(self, token_id: str, successor: TokenSuccessor) -> tuple[TokenView, TokenView]:
        """Store a token with the rights of another one, which expires after the overlap.

        Returns:
            The other token and its successor, each with its expiry.

        Raises:
            NotFound: No token has that id.
            WrongState: The token has expired, or was revoked.
            NotSigned: The row was written or changed without the installation's key.
        """
        database = self._db
        return database.run(
            "rotate_token",
            lambda c: tokens.rotate(c, token_id, successor, checker=database.checker),
        )


@attrs.frozen
class ControlLog:
    """The chained log of the control plane."""

    _db: LedgerDatabase

    def append(self, entry: Json) -> LogHead:
        """Append to the chained log of the control plane, and return its new head."""
        return self._db.run("log_control", lambda c: control_log.append(c, entry))

    def entries(self, *, after: int = 0, limit: int = 1_000) -> tuple[LogEntry, ...]:
        """Read the chained log in order, from the entry after a number."""
        return self._db.run("control_log", lambda c: control_log.entries(c, after, limit))

    def verify(self, heads: Mapping[int, bytes]) -> BrokenLog | None:
        """Find the first entry that the server did not write so; None if the log is intact.

        Args:
            heads: The hashes of entries by number that were shipped outside the database.
        """
        return self._db.run(
            "verify_control_log", lambda c: control_log.verify(c, heads, self._db.checker)
        )
