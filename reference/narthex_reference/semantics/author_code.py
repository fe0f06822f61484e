"""Authors' code in pipelines: what the reference needs of whoever runs it."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from narthex._ir import Cell, Column, UserCode


@attrs.frozen
class RowFrame:
    """Rows that code is given.

    Attributes:
        columns: Keys, values and event time, with their types.
        rows: Cells, a row a tuple, in the order of the columns.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class UserCodeRunner(Protocol):
    """Calls functions of authors on frames; each gives as many rows as it was given.

    A function is assumed to look at each row alone: which rows it sees at once is no part of
    what a pipeline means.
    """

    def filter(self, code: UserCode, frame: RowFrame) -> Sequence[bool]:
        """Say which rows stand.

        Raises:
            UserCodeError: It failed, or gave something else than booleans.
        """

    def assign(self, code: UserCode, frame: RowFrame, column: Column) -> Sequence[Cell]:
        """Return the cells of one column.

        Raises:
            UserCodeError: It failed, or gave something else than it declares.
        """

    def transform(
        self, code: UserCode, frame: RowFrame, columns: Sequence[Column]
    ) -> Sequence[tuple[Cell, ...]]:
        """Return rows of these columns.

        Raises:
            UserCodeError: It failed, or gave something else than it declares.
        """
