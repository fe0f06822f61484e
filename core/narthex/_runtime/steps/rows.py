"""Rows of a dataset, or of a step of a pipeline, by column: a column is a list of cells."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._formats.keys import key_encoder, keyed_row_id
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.node_schema import NodeSchema
from narthex._ir.schema import Column
from narthex._ir.types import DataType

Cells: TypeAlias = Sequence[Cell]
ValidityInterval: TypeAlias = tuple[int, int | None]
"""The start and the exclusive end of a row's validity, microseconds; None without an end."""

_NO_VERSION = Version(b"")


@attrs.frozen(kw_only=True)
class Absence:
    """The absence of a key from an instant on.

    Attributes:
        cells: The key's cells, in the order of the key columns.
    """

    id: RowId
    time: int
    cells: tuple[Cell, ...]


@attrs.frozen(kw_only=True, eq=False)
class RowBatch:
    """Current rows by column, and the absences between the rows of a key.

    Attributes:
        ids: Row ids.
        times: Event times, microseconds.
        cells: Key and value columns by name.
        gone: The absences; of keyed rows only.
        lives: The validity interval of each row: of keyed rows whose intervals are known, and of
            logged contributions of keyed rows, which are keyless. The event times of contributions
            are their places on the time axis.
    """

    schema: NodeSchema
    ids: Sequence[RowId]
    times: Sequence[int]
    cells: Mapping[str, Cells]
    gone: tuple[Absence, ...] = ()
    lives: Sequence[ValidityInterval] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    def column(self, name: str) -> Cells:
        """Return a column, which may be the event time."""
        return self.times if name == self.schema.timestamp else self.cells[name]

    def columns(self, names: Iterable[str]) -> dict[str, Cells]:
        """Return the columns by name."""
        return {name: self.column(name) for name in names}

    def take(self, places: Sequence[int]) -> "RowBatch":
        """Select rows in the given order, with all absences."""
        return attrs.evolve(
            self,
            ids=[self.ids[at] for at in places],
            times=[self.times[at] for at in places],
            cells={name: [column[at] for at in places] for name, column in self.cells.items()},
            lives=None if self.lives is None else [self.lives[at] for at in places],
        )

    def order(self) -> list[int]:
        """Return the places of the current rows, sorted by event time and row id."""
        return sorted(range(len(self.ids)), key=lambda at: (self.times[at], self.ids[at]))

    def keys(self, columns: Sequence[Column]) -> list[bytes]:
        """Return some cells of each row as bytes, which are equal only for equal cells."""
        encode = key_encoder(tuple(columns))
        cells = [self.column(column.name) for column in columns]
        return [encode(key) for key in zip(*cells, strict=True)]

    def key_cells(self, at: int) -> tuple[Cell, ...]:
        """Return the cells of a row's key."""
        return tuple(self.cells[column.name][at] for column in self.schema.keys)


def types_of(schema: NodeSchema) -> dict[str, DataType]:
    """Return the types of all columns, including the event time."""
    return schema.columns


def rows_of(facts: Iterable[Fact], schema: NodeSchema) -> RowBatch:
    """Convert current facts to rows."""
    living: list[Fact] = []
    gone: list[Absence] = []
    for fact in facts:
        if fact.alive:
            living.append(fact)
        elif schema.keys:
            gone.append(Absence(id=fact.row_id, time=fact.event_time, cells=fact.key))
    cells: dict[str, Cells] = {
        column.name: [fact.key[at] for fact in living] for at, column in enumerate(schema.keys)
    }
    cells |= {
        column.name: [fact.values[at] for fact in living] for at, column in enumerate(schema.values)
    }
    return RowBatch(
        schema=schema,
        ids=[fact.row_id for fact in living],
        times=[fact.event_time for fact in living],
        cells=cells,
        gone=tuple(gone),
    )


def facts_of(rows: RowBatch, values: Sequence[Column]) -> tuple[Fact, ...]:
    """Convert rows to facts, with cells in column order, sorted by event time and row id.

    An absence of a keyed row that ends no row is left out.
    """
    keys = [rows.cells[column.name] for column in rows.schema.keys]
    columns = [rows.cells[column.name] for column in values]
    found = [
        Fact(
            row_id=rows.ids[at],
            version=_NO_VERSION,
            event_time=rows.times[at],
            key=tuple([column[at] for column in keys]),
            values=tuple([column[at] for column in columns]),
        )
        for at in range(len(rows))
    ]
    nothing = (None,) * len(columns)
    found += [
        Fact(
            row_id=one.id,
            version=_NO_VERSION,
            event_time=one.time,
            key=one.cells,
            values=nothing,
            alive=False,
        )
        for one in rows.gone
    ]
    found.sort(key=lambda fact: (fact.event_time, fact.row_id))
    return tuple(_telling(found, rows.schema)) if rows.gone else tuple(found)


def _telling(facts: Iterable[Fact], schema: NodeSchema) -> Iterable[Fact]:
    encode = key_encoder(schema.keys)
    living: set[bytes] = set()
    for fact in facts:
        key = encode(fact.key)
        if fact.alive:
            living.add(key)
            yield fact
        elif key in living:
            living.discard(key)
            yield fact


def keyed_ids(keys: Sequence[bytes], times: Sequence[int]) -> list[RowId]:
    """Return the ids of keyed rows: key and instant."""
    return [keyed_row_id(key, time) for key, time in zip(keys, times, strict=True)]
