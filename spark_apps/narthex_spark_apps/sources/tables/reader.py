"""What a kind of database is asked for: a table's rows at or after a cursor, in its order.

Each kind has a module with a function `reading`; what becomes of the rows is the same for all of
them, `table_source`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias

import attrs

from narthex._analysis.policy import Destination, EgressRules
from narthex._ir import Credential, Table
from narthex_spark_apps.sources.tables.cursors import Cursor

BATCH: Final = 5_000
CONNECT_S: Final = 10

TableRow: TypeAlias = Mapping[str, object]
Reveals: TypeAlias = Callable[[Credential, Sequence[Destination]], str]
"""Returns the value of a credential, which is sent to these servers."""


class TableError(OSError):
    """A table cannot be read: its database does not answer, or there is no such column."""


@attrs.frozen(kw_only=True)
class TableAccess:
    """What a client needs to be let into a database.

    Attributes:
        cursor: The column that grows with each change.
        reveal: Returns the value of a credential for the servers that are sent it; raises
            `SecretMissing` or `SecretWithheld`.
        egress: The hosts that the policy allows.
        ca_file: Who vouches for the database; empty is whom the machine trusts.
    """

    table: Table
    cursor: str
    reveal: Reveals
    egress: EgressRules
    ca_file: str


@attrs.frozen(kw_only=True)
class TableScan:
    """One reading of a table, while its connection stands.

    Attributes:
        key: The columns that tell its rows apart, as its database warrants; empty if it warrants
            nothing, and only all of a row does.
        batches: Rows with a cursor at or after the one asked for, in its order.
    """

    key: tuple[str, ...]
    batches: Iterable[Sequence[TableRow]]


class ReadsTable(Protocol):
    """Reads tables of one kind of database."""

    def __call__(
        self, access: TableAccess, start: Cursor | None
    ) -> AbstractContextManager[TableScan]:
        """Open a reading; None starts at the least cursor. Rows without a cursor are not read.

        Raises:
            TableError: The database does not answer, or has no such table or column; also while
                its batches are taken.
            SecretMissing: A secret that lets us in is not there.
            SecretWithheld: The database may not be sent it.
            ConnectionDenied: The policy does not allow the database's address.
        """
