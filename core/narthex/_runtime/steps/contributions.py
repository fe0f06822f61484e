"""The rows of a group in the form that aggregates fold, by column and in order."""

from collections.abc import Sequence

import attrs

from narthex._aggregates import Folding, FoldRow, Order
from narthex._ir.facts import Cell, RowId
from narthex._ir.operators import Aggregate
from narthex._ir.schema import Column
from narthex._runtime.steps.rows import Cells, RowBatch, ValidityInterval
from narthex._runtime.steps.timelines import Timelines


@attrs.frozen(eq=False)
class Contributions:
    """The rows of one group, by their place on the time axis.

    Attributes:
        key: The cells that they are grouped by.
        instants: The place of each row on the time axis, ascending.
        rows: The order and the input cells of each row.
        columns: The same input cells, a column for each partial; nulls for a bare count.
        orders: The same orders.
        lives: The validity interval of each row, with an exclusive end; None if all are valid from
            their instants on, without an end.
    """

    key: tuple[Cell, ...]
    instants: Sequence[int]
    rows: Sequence[FoldRow]
    columns: Sequence[Cells]
    orders: Sequence[Order]
    lives: Sequence[ValidityInterval] | None


def contributions(
    step: Aggregate, rows: RowBatch, folding: Folding, inputs: Sequence[str], by: Sequence[Column]
) -> dict[bytes, Contributions]:
    """Return the rows of each group, by the bytes of the columns that they are grouped by.

    A keyless row is valid from its place on the time axis on, without an end. A keyed row is valid
    from its event time until its key changes; `along` only determines the windows that it belongs
    to. Rows with lives have their places as their event times.
    """
    places, lives = _standing(rows)
    along = step.along if rows.lives is None else None
    axis = rows.times if along is None else rows.column(along)
    keys = rows.keys(by)
    groups: dict[bytes, list[tuple[int, RowId, int, int]]] = {}
    for number, at in enumerate(places):
        instant = axis[at]
        if isinstance(instant, int):  # always: `along` is not Optional
            groups.setdefault(keys[at], []).append((instant, rows.ids[at], at, number))
    cells = [rows.column(name) for name in inputs]
    named = [rows.column(column.name) for column in by]
    return {
        key: _group(
            tuple(column[found[0][2]] for column in named), sorted(found), cells, lives, folding
        )
        for key, found in groups.items()
    }


def _standing(rows: RowBatch) -> tuple[Sequence[int], Sequence[ValidityInterval] | None]:
    if rows.lives is not None or not rows.schema.keys:
        return range(len(rows)), rows.lives
    found = [
        (place, (begin, end))
        for timeline in Timelines(rows).by_key.values()
        for begin, place, end in timeline.lives()
    ]
    return [place for place, _ in found], [validity for _, validity in found]


def _group(
    key: tuple[Cell, ...],
    found: Sequence[tuple[int, RowId, int, int]],
    cells: Sequence[Cells],
    lives: Sequence[ValidityInterval] | None,
    folding: Folding,
) -> Contributions:
    columns = [[column[at] for _, _, at, _ in found] for column in cells]
    read: list[tuple[Cell, ...]] = (
        list(zip(*columns, strict=True)) if columns else [()] * len(found)
    )
    rows: list[FoldRow] = [
        (instant, row_id, values)
        for (instant, row_id, _, _), values in zip(found, read, strict=True)
    ]
    return Contributions(
        key=key,
        instants=[instant for instant, _, _, _ in found],
        rows=rows,
        columns=[
            [None] * len(rows) if column is None else columns[column] for column in folding.columns
        ],
        orders=[row[:2] for row in rows],
        lives=None if lives is None else [lives[number] for _, _, _, number in found],
    )
