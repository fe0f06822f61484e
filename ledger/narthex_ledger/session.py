"""The database session shared by every part of the ledger's API."""

import datetime as dt
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.transactions import FaultHook, Transactions, no_faults
from narthex_ledger.model.views import ManifestView, Rules
from narthex_ledger.signing.row_checks import Checker
from narthex_ledger.signing.signatures import ATTEST, Signer, Verifier

_T = TypeVar("_T")


class LedgerDatabase:
    """The database and the rules of the installation; safe to share between threads."""

    def __init__(
        self,
        dsn: str,
        *,
        rules: Rules | None = None,
        clock_shift: dt.timedelta = dt.timedelta(0),
        fault_hook: FaultHook = no_faults,
        signer: Signer | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        """Open the ledger at an SQLAlchemy URL; it connects on first use.

        With a signer or a verifier, rows without a valid signature are refused; a verifier alone
        signs nothing. `clock_shift` and `fault_hook` are for tests: sessions with a later clock,
        and crash points.
        """
        self._rules = Rules() if rules is None else rules
        self._transactions = Transactions(dsn, clock_shift=clock_shift, fault_hook=fault_hook)
        self._signer = signer
        self._verifier = verifier if signer is None else signer.verifier
        self._checker = Checker(verifier=self._verifier)
        self._manifests: dict[UUID, ManifestView] = {}

    def close(self) -> None:
        """Release all connections."""
        self._transactions.close()

    def _run(self, name: str, work: Callable[[Connection], _T]) -> _T:
        def signing(connection: Connection) -> _T:
            connection.info[ATTEST] = self._attest
            return work(connection)

        return self._transactions.run(name, signing)

    def _attest(self, statement: Json) -> bytes | None:
        return None if self._signer is None else self._signer.attest(statement)
