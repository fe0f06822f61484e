"""The protocol of database clients: read a table's rows at or after a cursor, in its order.

Each kind of database has a module with a function `reading`; `source` handles the rows of all of
them alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

import attrs

from narthex._connectors import Destination, EgressRules
from narthex._ir import Credential, Table
from narthex_spark_apps.sources.tables.cursors import Cursor

BATCH: Final = 5_000
CONNECT_S: Final = 10

TableRow: TypeAlias = Mapping[str, object]
Reveals: TypeAlias = Callable[[Credential, Sequence[Destination]], str]
"""Returns the value of a credential that is sent to these servers."""


class TableError(OSError):
    """A table cannot be read: its database does not answer, or a column does not exist."""


@attrs.frozen(kw_only=True)
class TableAccess:
    """The parameters with which a client opens a database.

    Attributes:
        cursor: The column that grows with each change.
        reveal: Returns the value of a credential for the servers that receive it; raises
            `SecretMissing` or `SecretWithheld`.
        egress: The hosts that the policy allows.
        ca_file: The certificates that verify the database; empty: those that the machine trusts.
    """

    table: Table
    cursor: str
    reveal: Reveals
    egress: EgressRules
    ca_file: str


@attrs.frozen(kw_only=True)
class TableScan:
    """One scan of a table, while its connection is open.

    Attributes:
        key: The columns that identify a row, as its database guarantees; empty if it guarantees
            none, so that only all values of a row identify it.
        batches: Rows with a cursor at or after the requested one, in its order.
    """

    key: tuple[str, ...]
    batches: Iterable[Sequence[TableRow]]


class ReadsTable(Protocol):
    """Reads tables of one kind of database."""

    def __call__(
        self, access: TableAccess, start: Cursor | None
    ) -> AbstractContextManager[TableScan]:
        """Open a scan; None starts at the least cursor. Rows without a cursor are not read.

        Raises:
            TableError: The database does not answer, or has no such table or column; may also be
                raised while batches are read.
            SecretMissing: A secret for the database is missing.
            SecretWithheld: The database is not allowed to receive the secret.
            ConnectionDenied: The policy does not allow the database's address.
        """
