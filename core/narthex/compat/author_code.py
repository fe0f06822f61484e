"""Authors' code in unit tests: the frames that it gets have Fennel's hidden column."""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from typing_extensions import override

from narthex._ir.code import UserCode
from narthex._ir.schema import Column
from narthex._runtime.workers.lookups import Find
from narthex._testing.in_process import InProcessCalls
from narthex.secrets import Provider

DELETED_AT: Final = "__fennel_delete_timestamp__"
"""The column of Fennel's frames of keyed rows; it was null for all rows that `transform` got."""


class FennelCalls(InProcessCalls):
    """Calls authors' code with the frames that it gets in Fennel's unit tests.

    Attributes:
        takes_keyed: Whether a function of `transform` gets rows that have a key.
    """

    def __init__(self, secrets: Provider | None = None) -> None:
        """Create the calls without code."""
        super().__init__(secrets)
        self.takes_keyed: Callable[[UserCode], bool] = lambda _: False

    @override
    def call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        given = table
        if kind == "transform" and self.takes_keyed(code):
            nulls = pa.nulls(table.num_rows, pa.timestamp("us", tz="UTC"))
            given = table.append_column(DELETED_AT, nulls)
        return super().call(code, kind, given, outputs, title=title, find=find)
