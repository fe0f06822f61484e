"""Changes as rows of a table: the final state of each row, under its public names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from narthex._base import Json
from narthex._ir import DataType, SinkJobSpec, Str
from narthex_spark_apps.sinks.changes import RowChange
from narthex_spark_apps.sinks.envelopes import row_of_fact

ROW_COLUMN: Final = "_narthex_row"
"""The column that identifies the rows of a keyless dataset."""


@attrs.frozen(kw_only=True)
class SinkTableLayout:
    """The columns of a sink's table.

    Attributes:
        names: Public name to name in the table, in the order of the dataset's fields.
        identity: The columns that identify a row: the key, or `ROW_COLUMN`.
        types: The type of each column, by its name in the table.
    """

    names: Mapping[str, str]
    identity: tuple[str, ...]
    types: Mapping[str, DataType]

    @classmethod
    def of(cls, spec: SinkJobSpec) -> "SinkTableLayout":
        """Return the layout of a sink's table."""
        renamed = dict(spec.sink.renames)
        names = {f.name: renamed.get(f.name, f.name) for f in spec.schema.fields}
        types = {names[f.name]: f.type for f in spec.schema.fields}
        identity = tuple(names[column.name] for column in spec.log.keys)
        if not identity:
            return cls(names=names, identity=(ROW_COLUMN,), types={ROW_COLUMN: Str(), **types})
        return cls(names=names, identity=identity, types=types)

    def cells(
        self, change: RowChange, spec: SinkJobSpec, *, cell: Callable[[Json, DataType], object]
    ) -> dict[str, object]:
        """Return the row of a change, by the names in the table.

        Args:
            change: A change of the dataset of `spec`.
            spec: The sink whose layout this is.
            cell: Converts a cell to the form that the table's database takes.
        """
        row = row_of_fact(change.fact, spec)
        cells = {name: cell(row[public], self.types[name]) for public, name in self.names.items()}
        if ROW_COLUMN in self.types:
            cells[ROW_COLUMN] = change.identity.hex()
        return cells


def net(changes: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """Return the last change of each identity: a table has no intermediate states."""
    return tuple({change.identity: change for change in changes}.values())
