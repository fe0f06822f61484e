"""A case: definitions, facts, lookups, and hand-written answers according to `semantics.md`."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex._formats import key_bytes, keyed_row_id
from narthex._ir import Cell, Definitions, Fact, RowId, Version, position
from narthex._sdk import definitions
from narthex._sdk.datasets import dataset_entity
from narthex.datasets import Dataset

SECOND = 1_000_000
"""Instants and spans of cases are microseconds."""


@attrs.frozen
class SentRow:
    """A sent row: the cells of the dataset's fields, in their order.

    Attributes:
        cells: The cells of all fields; in a delete, those of the values are None.
        alive: False for a delete; a row without a key cannot be deleted.
    """

    dataset: Dataset
    cells: tuple[Cell, ...]
    alive: bool = True


@attrs.frozen
class ExpectedLookup:
    """A lookup that finds these values; `event_time` None is not compared."""

    dataset: Dataset
    key: tuple[Cell, ...]
    as_of: int
    values: tuple[Cell, ...]
    event_time: int | None = None


@attrs.frozen
class Missing:
    """A lookup that finds nothing."""

    dataset: Dataset
    key: tuple[Cell, ...]
    as_of: int


@attrs.frozen
class ExpectedRows:
    """The rows that a dataset has, each the cells of its fields in their order.

    Attributes:
        rows: Rows by event time, then by identity; an absence is (key…, event time).
    """

    dataset: Dataset
    rows: tuple[tuple[Cell, ...], ...]


Ask: TypeAlias = ExpectedLookup | Missing | ExpectedRows


@attrs.frozen(kw_only=True)
class ConformanceCase:
    """Facts and lookups with the expected answers, which hold for every order of arrival."""

    name: str
    datasets: tuple[Dataset, ...]
    sent: tuple[SentRow, ...]
    asks: tuple[Ask, ...]

    @property
    def definitions(self) -> Definitions:
        """The entities of the case."""
        return definitions(list(self.datasets), [])

    @property
    def facts(self) -> tuple[tuple[str, Fact], ...]:
        """The sent rows as facts with their datasets; positions count up in the written order."""
        counts: dict[str, int] = {}
        found = []
        for row in self.sent:
            name = dataset_entity(row.dataset).name
            offset = counts[name] = counts.get(name, -1) + 1
            found.append((name, _fact(row, name, offset)))
        return tuple(found)


def case(
    name: str, datasets: Sequence[object], sent: Sequence[SentRow], *asks: Ask
) -> ConformanceCase:
    """Return a case, named by the sentence that it tests."""
    return ConformanceCase(
        name=name, datasets=tuple(map(_declared, datasets)), sent=tuple(sent), asks=asks
    )


def _declared(dataset: object) -> Dataset:
    # A class below `@dataset` is a Dataset, which type checkers do not see.
    if isinstance(dataset, Dataset):
        return dataset
    raise TypeError(f"{dataset!r} is not a dataset")


def row(dataset: object, *cells: Cell) -> SentRow:
    """Return a row of a dataset, its cells in the order of the fields."""
    return SentRow(_declared(dataset), cells)


def delete(dataset: object, *key_and_instant: Cell) -> SentRow:
    """Return the delete of a key from an instant on: key cells, then the event time."""
    return SentRow(_declared(dataset), key_and_instant, alive=False)


def found(dataset: object, *key: Cell, at: int, gives: Sequence[Cell]) -> ExpectedLookup:
    """Expect a lookup to find values."""
    return ExpectedLookup(_declared(dataset), key, at, tuple(gives))


def missing(dataset: object, *key: Cell, at: int) -> Missing:
    """Expect a lookup to find nothing."""
    return Missing(_declared(dataset), key, at)


def holds(dataset: object, *rows: tuple[Cell, ...]) -> ExpectedRows:
    """Expect a dataset to have these rows."""
    return ExpectedRows(_declared(dataset), rows)


def _fact(sent: SentRow, name: str, offset: int) -> Fact:
    schema = dataset_entity(sent.dataset).schema
    named = [field.name for field in schema.fields]
    if not sent.alive:
        named = [*(column.name for column in schema.keys), schema.timestamp]
    cells = dict(zip(named, sent.cells, strict=True))
    event_time = cells[schema.timestamp]
    if not isinstance(event_time, int):
        raise TypeError(f"{event_time!r} is not an instant")
    place = position(f"source/{name}", 0, offset)
    key = tuple(cells[column.name] for column in schema.keys)
    return Fact(
        row_id=keyed_row_id(key_bytes(schema.keys, key), event_time) if key else RowId(place),
        version=Version(place),
        event_time=event_time,
        key=key,
        values=tuple(cells.get(column.name) for column in schema.values),
        alive=sent.alive,
    )
