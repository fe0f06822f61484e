"""The database session shared by every part of the ledger."""

from collections.abc import Callable
from typing import TypeVar

import attrs
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.transactions import Transactions
from narthex_ledger.model.views import Rules
from narthex_ledger.signing.row_checks import Checker
from narthex_ledger.signing.signatures import ATTEST, Signer, Verifier

_T = TypeVar("_T")


@attrs.frozen
class LedgerDatabase:
    """The database and the rules of the installation; safe to share between threads.

    With a signer or a verifier, rows without a valid signature are refused; a verifier alone
    signs nothing.
    """

    transactions: Transactions
    rules: Rules
    signer: Signer | None
    verifier: Verifier | None

    @property
    def checker(self) -> Checker:
        """The check of rows that are read back."""
        return Checker(verifier=self.verifier)

    def run(self, name: str, work: Callable[[Connection], _T]) -> _T:
        """Run work in a transaction of that name, with the signer at hand."""

        def signing(connection: Connection) -> _T:
            connection.info[ATTEST] = self.attest
            return work(connection)

        return self.transactions.run(name, signing)

    def attest(self, statement: Json) -> bytes | None:
        """Sign a statement; None without a signer."""
        return None if self.signer is None else self.signer.attest(statement)
