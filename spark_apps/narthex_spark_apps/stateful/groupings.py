"""The groups of the rows of a stateful step, and the step on the rows of a group."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from narthex._formats import instant_in, key_encoder, key_of
from narthex._ir import (
    Aggregate,
    Cell,
    Changelog,
    Column,
    Dedup,
    Explode,
    First,
    Hopping,
    Join,
    Latest,
    NodeSchema,
    PipelineInput,
    RowId,
    Session,
    Tumbling,
)
from narthex._runtime.steps import (
    StepContext,
    Timelines,
    apply_step,
    versions_of,
)
from narthex_spark_apps.stateful.kept_rows import Element, ElementCodec
from narthex_spark_apps.stateful.reach import Chain, Neighbours, Reach, Within
from narthex_stores import place_of

GroupStep: TypeAlias = Aggregate | Changelog | Dedup | Explode | First | Latest

_ALONE = b"\xff\xff\xff\xff"
"""The group prefix of a row without a group: the bytes of a key never start with a null."""


_INSTANT_BYTES = 9
"""Enough for the number of any instant."""


def _compared_us(step: GroupStep) -> int | None:
    """Return the length of the spans of time within which a step compares rows; None without."""
    match step:
        case Latest() | Dedup(window=None):
            return 1
        case Dedup(window=Tumbling(duration=duration)):
            return duration
        case _:
            return None


def _reach_of(step: GroupStep) -> Reach | None:
    """Return how far a changed row affects the output; None for steps on whole groups."""
    match step:
        case Aggregate(window=Session(gap=gap)) | Dedup(window=Session(gap=gap)):
            return Chain(gap)
        case Changelog():
            return Neighbours()
        case Aggregate(window=Tumbling(duration=int(length)) | Hopping(duration=int(length))):
            return Within(length)
        case _:
            return None


class Grouping(Protocol):
    """The groups of rows, and the step that runs on each group."""

    @property
    def reach(self) -> Reach | None:
        """How far a changed row affects the output of its group; None if that is all of it."""

    def instant(self, element: Element) -> int:
        """Return the position of a row on the time axis that `reach` refers to."""

    def key(self, side: int, element: Element) -> bytes:
        """Return the canonical bytes of the group of a row."""

    def fixed_place(self, row_id: RowId) -> bytes | None:
        """Return the place of a row if its identity determines it; None where rows can move."""

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Apply the step to the rows of some groups, side by side."""


class _Movable:
    """Part of a grouping: a row has the place that its cells determine."""

    def fixed_place(self, _row_id: RowId) -> None:
        """None: a row whose cells change may move."""
        return


class _WholeGroups(_Movable):
    """Part of a grouping: a changed row may affect all output of its group."""

    @property
    def reach(self) -> None:
        """None: all rows of a group are read."""
        return

    def instant(self, element: Element) -> int:
        """Return the event time."""
        return element.time


@attrs.frozen(kw_only=True)
class ByColumns(_Movable):
    """Groups of rows with the same cells in some columns, and the step on each group.

    Steps that compare only rows of one instant, or of one window, have a group for each. So a
    group has few rows, whatever the number of rows of a key.

    Attributes:
        alone: Whether each row is a group of its own.
    """

    step: GroupStep
    before: ElementCodec
    after: ElementCodec
    by: tuple[str, ...]
    context: StepContext
    alone: bool = False
    reach: Reach | None = attrs.field(init=False)
    _key: "CellsKey" = attrs.field(init=False)
    _along: int | None = attrs.field(init=False)

    @reach.default
    def _find_reach(self) -> Reach | None:
        return _reach_of(self.step)

    @_key.default
    def _make_key(self) -> "CellsKey":
        return CellsKey(self.before.schema, self.by)

    @_along.default
    def _find_along(self) -> int | None:
        along = self.step.along if isinstance(self.step, Aggregate) else None
        return None if along is None else self.before.names.index(along)

    def instant(self, element: Element) -> int:
        """Return the event time, or the cell of the column `along`."""
        cell = None if self._along is None else element.cells[self._along]
        return cell if isinstance(cell, int) else element.time

    def key(self, _side: int, element: Element) -> bytes:
        """Return the bytes of the columns, and of the instants that the step compares."""
        if self.alone:
            return alone(element)
        length = _compared_us(self.step)
        if length is None:
            return self._key(element)
        number = element.time // length
        return self._key(element) + number.to_bytes(_INSTANT_BYTES, "big", signed=True)

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Apply the step to the rows."""
        rows = self.before.rows(sides[0])
        made = apply_step(self.step, rows, schema=self.after.schema, context=self.context)
        return self.after.elements(made)


@attrs.frozen(kw_only=True)
class VersionsOf(_WholeGroups):
    """The versions of a dataset's groups, from its log of contributions.

    Attributes:
        before: The rows of its log, as keyless rows.
        after: The dataset's own rows.
    """

    given: PipelineInput
    before: ElementCodec
    after: ElementCodec
    _key: "CellsKey" = attrs.field(init=False)

    @_key.default
    def _make_key(self) -> "CellsKey":
        names = tuple(column.name for column in self.after.schema.keys)
        return CellsKey(self.before.schema, names)

    def key(self, _side: int, element: Element) -> bytes:
        """Return the bytes of the group's key."""
        return self._key(element)

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Return a row for each instant at which the group's values change."""
        rows = self.before.rows(sides[0])
        return self.after.elements(versions_of(self.given, rows))


@attrs.frozen(kw_only=True)
class ByKey:
    """The rows and absences of a key, with the validity interval of each row.

    The identity of a keyed row is its key and its instant.

    Attributes:
        absences: Whether absences are returned too, or intervals only.
    """

    codec: ElementCodec
    absences: bool
    reach: Reach = attrs.field(init=False, factory=Neighbours)

    def instant(self, element: Element) -> int:
        """Return the event time."""
        return element.time

    def key(self, _side: int, element: Element) -> bytes:
        """Return the bytes of the key."""
        return key_of(element.row_id)

    def fixed_place(self, row_id: RowId) -> bytes:
        """Return the key and the instant."""
        return place_of(key_of(row_id), instant_in(row_id))

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Return each row with its validity interval; of absences, those that end a row."""
        found: list[Element] = []
        current: Element | None = None
        for element in sorted(sides[0], key=_identity):
            if current is not None and not _is_of_key(current, element):
                found.append(_valid(current, None))
                current = None
            if current is not None:
                found.append(_valid(current, element.time))
                if self.absences and not element.alive:
                    found.append(element)
            current = element if element.alive else None
        if current is not None:
            found.append(_valid(current, None))
        return found


def _is_of_key(row: Element, other: Element) -> bool:
    return key_of(row.row_id) == key_of(other.row_id)


def _identity(element: Element) -> RowId:
    """Return a keyed row's identity, which sorts the rows of a key by time."""
    return element.row_id


def _valid(row: Element, end: int | None) -> Element:
    """Return a row with its validity interval."""
    return Element(row.row_id, row.time, row.cells, life=(row.time, end))


@attrs.frozen(kw_only=True)
class ByJoin(_WholeGroups):
    """Left rows, grouped with the right rows that they reference.

    Attributes:
        left: The left side; if it is keyed, its rows have validity intervals.
    """

    step: Join
    left: ElementCodec
    right: ElementCodec
    after: ElementCodec
    context: StepContext
    _left_key: "CellsKey" = attrs.field(init=False)

    @_left_key.default
    def _make_key(self) -> "CellsKey":
        left_of = {right_name: left_name for left_name, right_name in self.step.on}
        keys = self.right.schema.keys
        return CellsKey(self.left.schema, tuple(left_of[column.name] for column in keys), keys)

    def key(self, side: int, element: Element) -> bytes:
        """Return the bytes of the right key; a left row without a reference is alone."""
        if side:
            return self.right.key(element)
        if not element.alive or self._left_key.has_null(element):
            return alone(element)
        return self._left_key(element)

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Return the joined left rows; the absence of a left row stays an absence."""
        left, right = sides
        if not left:
            return []
        absences = [element for element in left if not element.alive]
        living = [element for element in left if element.alive]
        rows = self.left.valid_rows(living) if self.left.schema.keys else self.left.rows(living)
        timelines = Timelines(self.right.rows(right))
        schema = self.after.schema
        made = apply_step(self.step, rows, right=timelines, schema=schema, context=self.context)
        return absences + self.after.elements(made)


@attrs.frozen
class CellsKey:
    """Some columns of rows as canonical bytes.

    Attributes:
        columns: The columns in the bytes; by default those whose cells are read.
    """

    schema: NodeSchema
    names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    _places: tuple[int | None, ...] = attrs.field(init=False)
    _encode: Callable[[Sequence[Cell]], bytes] = attrs.field(init=False)

    @_places.default
    def _find_places(self) -> tuple[int | None, ...]:
        at = {c.name: n for n, c in enumerate((*self.schema.keys, *self.schema.values))}
        return tuple(at.get(name) for name in self.names)

    @_encode.default
    def _make_encoder(self) -> Callable[[Sequence[Cell]], bytes]:
        types = self.schema.columns
        return key_encoder(self.columns or tuple(Column(name, types[name]) for name in self.names))

    def _cells(self, element: Element) -> list[Cell]:
        # Only the event time is not a cell.
        return [element.time if at is None else element.cells[at] for at in self._places]

    def has_null(self, element: Element) -> bool:
        """Whether a cell is null."""
        return None in self._cells(element)

    def __call__(self, element: Element) -> bytes:
        """Return the bytes."""
        return self._encode(self._cells(element))


def alone(element: Element) -> bytes:
    """Return the group of a row that is in no other group."""
    return _ALONE + len(element.row_id).to_bytes(4, "big") + element.row_id
