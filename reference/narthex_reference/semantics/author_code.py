"""The protocol by which the reference runs authors' code in pipelines."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from narthex._ir import Cell, Column, UserCode


@attrs.frozen
class RowFrame:
    """The rows passed to code.

    Attributes:
        columns: Keys, values and event time, with their types.
        rows: Cells, one tuple per row, in the order of the columns.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class UserCodeRunner(Protocol):
    """Calls authors' functions on frames; each returns as many rows as it receives.

    A function is assumed to process each row alone: the meaning of a pipeline does not depend on
    which rows it receives together. Where it fails on a row alone, that row does not pass the step.
    """

    def filter(self, code: UserCode, frame: RowFrame) -> Sequence[bool]:
        """Return which rows to keep.

        Raises:
            UserCodeError: The code failed, or returned something else than booleans.
        """

    def assign(self, code: UserCode, frame: RowFrame, column: Column) -> Sequence[Cell]:
        """Return the cells of one column.

        Raises:
            UserCodeError: The code failed, or returned something else than it declares.
        """

    def transform(
        self, code: UserCode, frame: RowFrame, columns: Sequence[Column]
    ) -> Sequence[tuple[Cell, ...]]:
        """Return rows of these columns.

        Raises:
            UserCodeError: The code failed, or returned something else than it declares.
        """
