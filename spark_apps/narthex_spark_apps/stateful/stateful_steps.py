"""The steps of a stateful job: row changes in, row changes out.

A step on single rows keeps no state. Every other step keeps its rows by group in the job's state: a
changed row affects its previous and its current group, and the step compares the output of
`narthex._runtime.steps` for each affected group with the previous output.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs

from narthex._formats.avro import key_encoder, keyed_row_id
from narthex._ir import (
    TOMBSTONE_TIME,
    Aggregate,
    Cell,
    Changelog,
    Column,
    Dedup,
    Explode,
    Fact,
    First,
    Join,
    Latest,
    LogShape,
    NodeSchema,
    PipelineInput,
    RowId,
    Tumbling,
)
from narthex._runtime.steps import (
    ABSENT,
    RowStep,
    StepContext,
    Timelines,
    apply_step,
    side_id,
    timeline_of,
    validity_of,
    versions_of,
)
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges, ElementCodec, end_of
from narthex_stores import StateBatch

ArrivedFacts: TypeAlias = Mapping[str, Sequence[Fact]]
"""Facts that arrived, by the dataset of their log."""

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


class StateNode(Protocol):
    """A step with its inputs."""

    @property
    def schema(self) -> NodeSchema:
        """The columns of its rows."""

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Process the facts that arrived; return the changes of this step's rows."""


@attrs.frozen(kw_only=True)
class Leaf:
    """The rows of a dataset's log: for each identity, the state with the highest version."""

    number: int
    given: PipelineInput
    schema: NodeSchema

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Return the rows with a newer state than the stored one."""
        element_changes: ElementChanges = {}
        for fact in arrived.get(self.given.dataset, ()):
            if batch.supersede(self.number, fact.row_id, fact.version):
                element_changes[fact.row_id] = self._element(fact)
        return element_changes

    def _element(self, fact: Fact) -> Element | None:
        log = self.given.log
        if fact.alive:
            cells = (*fact.key, *fact.values[: len(log.inputs)])
            life = validity_of(fact) if log.lives else None
            return Element(fact.row_id, fact.event_time, cells, life=life)
        if log.shape is LogShape.KEYED and fact.event_time != TOMBSTONE_TIME:
            return Element(fact.row_id, fact.event_time, fact.key, alive=False)
        return None


@attrs.frozen(kw_only=True)
class EachRow:
    """A step that handles each row alone."""

    step: RowStep
    input: StateNode
    schema: NodeSchema
    context: StepContext
    _before: ElementCodec = attrs.field(init=False)
    _after: ElementCodec = attrs.field(init=False)

    @_before.default
    def _make_before(self) -> ElementCodec:
        return ElementCodec(self.input.schema)

    @_after.default
    def _make_after(self) -> ElementCodec:
        return ElementCodec(self.schema)

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Apply the step to the rows that changed."""
        given = self.input.changes(batch, arrived)
        found: ElementChanges = dict.fromkeys(given)
        rows = [element for element in given.values() if element is not None]
        if rows:
            before = self._before.rows(rows)
            made = apply_step(self.step, before, schema=self.schema, context=self.context)
            found |= {one.row_id: one for one in self._after.elements(made)}
        return found


@attrs.frozen(kw_only=True)
class Both:
    """The rows of two inputs; the input's number becomes part of a row's identity."""

    sides: tuple[StateNode, StateNode]
    schema: NodeSchema

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Return the changes of either side."""
        element_changes: ElementChanges = {}
        for side, node in enumerate(self.sides):
            order = _order(node.schema, self.schema)
            for row_id, element in node.changes(batch, arrived).items():
                fresh = side_id(row_id, side)
                element_changes[fresh] = None
                if element is not None:
                    cells = tuple([element.cells[at] for at in order])
                    element_changes[fresh] = attrs.evolve(element, row_id=fresh, cells=cells)
        return element_changes


def _order(given: NodeSchema, wanted: NodeSchema) -> list[int]:
    names = [column.name for column in (*given.keys, *given.values)]
    return [names.index(column.name) for column in (*wanted.keys, *wanted.values)]


class Grouping(Protocol):
    """The groups of rows, and the step that runs on each group."""

    def key(self, side: int, element: Element) -> bytes:
        """Return the canonical bytes of the group of a row."""

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Apply the step to the rows of a group, side by side."""


@attrs.frozen
class _Stored:
    """A row that was stored, as it was before and as it is now.

    Attributes:
        before: Its former group; None if it was not stored.
        was: Its former bytes.
        now: Its group; None if it no longer exists.
        packed: Its bytes.
    """

    before: bytes | None
    was: bytes | None
    now: bytes | None
    packed: bytes | None

    def states(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield (group, bytes, 0 for the former state or 1 for the present one) if it changed."""
        if (self.before, self.was) == (self.now, self.packed):
            return
        if self.before is not None and self.was is not None:
            yield self.before, self.was, 0
        if self.now is not None and self.packed is not None:
            yield self.now, self.packed, 1


_Changed: TypeAlias = tuple[list[bytes], list[bytes]]
"""The former and the present states of the rows of a group that changed."""


@attrs.frozen(kw_only=True)
class Grouped:
    """A step on groups of rows.

    Attributes:
        number: The number of the step in the tree.
        by_row: Whether each row of the first input has its own output, which the other rows of that
            input do not affect.
    """

    number: int
    inputs: tuple[StateNode, ...]
    grouping: Grouping
    schema: NodeSchema
    by_row: bool = False
    _before: tuple[ElementCodec, ...] = attrs.field(init=False)
    _after: ElementCodec = attrs.field(init=False)

    @_before.default
    def _make_before(self) -> tuple[ElementCodec, ...]:
        return tuple(ElementCodec(node.schema) for node in self.inputs)

    @_after.default
    def _make_after(self) -> ElementCodec:
        return ElementCodec(self.schema)

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Store the changed rows; compare the new and previous output of what they affect."""
        stored = [
            [
                self._store(batch, side, row_id, element)
                for row_id, element in node.changes(batch, arrived).items()
            ]
            for side, node in enumerate(self.inputs)
        ]
        # A change of the right side of a join affects all rows of its group.
        in_groups = stored[1:] if self.by_row else stored
        states = (state for rows in in_groups for row in rows for state in row.states())
        groups = dict.fromkeys(group for group, _, _ in states)
        changed: dict[bytes, _Changed] = {}
        if self.by_row:
            for row in stored[0]:
                for group, packed, place in row.states():
                    if group not in groups:
                        changed.setdefault(group, ([], []))[place].append(packed)
        element_changes: ElementChanges = {}
        fresh: ElementChanges = {}
        for group in groups:
            self._compare(batch, group, element_changes, fresh)
        for group, rows_of_group in changed.items():
            self._compare_rows(batch, group, rows_of_group, element_changes, fresh)
        # A row that moved from one group to another still exists.
        return element_changes | fresh

    def _store(
        self,
        batch: StateBatch,
        side: int,
        row_id: RowId,
        element: Element | None,
    ) -> _Stored:
        """Store a row in its current group."""
        before = batch.place(self.number, side, row_id)
        was = None if before is None else batch.kept(self.number, side, before, row_id)
        if element is None:
            if before is not None:
                batch.leave(self.number, side, before, row_id)
            return _Stored(before, was, None, None)
        packed = self._before[side].pack(element)
        key = self.grouping.key(side, element)
        now = batch.keep(self.number, side, key, row_id, packed)
        if before is not None and before != now:
            batch.forget(self.number, side, before, row_id)
        return _Stored(before, was, now, packed)

    def _members(self, batch: StateBatch, side: int, group: bytes) -> list[Element]:
        unpack = self._before[side].unpack
        return [unpack(row) for row in batch.members(self.number, side, group)]

    def _compare(
        self,
        batch: StateBatch,
        group: bytes,
        found: ElementChanges,
        fresh: ElementChanges,
    ) -> None:
        """Compare the output of all rows of a group with what was emitted for them."""
        sides = [self._members(batch, side, group) for side in range(len(self.inputs))]
        made = self.grouping.made(sides) if any(sides) else []
        before = dict.fromkeys(batch.given(self.number, group))
        self._replace(batch, group, before, made, found, fresh)

    def _compare_rows(
        self,
        batch: StateBatch,
        group: bytes,
        changed: _Changed,
        found: ElementChanges,
        fresh: ElementChanges,
    ) -> None:
        """Compare the output of rows of a group with the output of what they were before."""
        others = [self._members(batch, side, group) for side in range(1, len(self.inputs))]
        was, now = ([self._before[0].unpack(row) for row in rows] for rows in changed)
        emitted = self.grouping.made([was, *others]) if was else []
        made = self.grouping.made([now, *others]) if now else []
        before = dict.fromkeys(self._after.pack(element) for element in emitted)
        self._replace(batch, group, before, made, found, fresh)

    def _replace(
        self,
        batch: StateBatch,
        group: bytes,
        before: dict[bytes, None],
        made: Sequence[Element],
        found: ElementChanges,
        fresh: ElementChanges,
    ) -> None:
        """Store the difference between the former output, as bytes, and the present one."""
        changed: dict[RowId, None] = {}
        for element in made:
            packed = self._after.pack(element)
            if packed in before:
                del before[packed]
                continue
            batch.give(self.number, group, element.row_id, packed)
            fresh[element.row_id] = element
            changed[element.row_id] = None
        for packed in before:
            row_id = self._after.unpack(packed).row_id
            if row_id not in changed:
                batch.take_back(self.number, group, row_id)
                found[row_id] = None


@attrs.frozen(kw_only=True)
class ByColumns:
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
    _key: "CellsKey" = attrs.field(init=False)

    @_key.default
    def _make_key(self) -> "CellsKey":
        return CellsKey(self.before.schema, self.by)

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
class VersionsOf:
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

    Attributes:
        absences: Whether absences are returned too, or intervals only.
    """

    codec: ElementCodec
    absences: bool

    def key(self, _side: int, element: Element) -> bytes:
        """Return the bytes of the key."""
        return self.codec.key(element)

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Return each row with its validity interval."""
        (elements,) = sides
        rows = [element for element in elements if element.alive]
        events = [(element.time, place) for place, element in enumerate(rows)]
        events += [(element.time, ABSENT) for element in elements if not element.alive]
        ends = (end_of(element) for element in rows)
        events += [(end, ABSENT) for end in ends if end is not None]
        timeline = timeline_of(events)
        found = [
            Element(rows[place].row_id, begin, rows[place].cells, life=(begin, end))
            for begin, place, end in timeline.lives()
        ]
        if self.absences and timeline.places:
            # The first place is a row: an absence that ends nothing is omitted.
            first = rows[timeline.places[0]]
            key, cells = self.codec.key(first), first.cells[: len(self.codec.schema.keys)]
            found += [
                Element(keyed_row_id(key, time), time, cells, alive=False)
                for time, place in zip(timeline.times, timeline.places, strict=True)
                if place == ABSENT
            ]
        return found


@attrs.frozen(kw_only=True)
class ByJoin:
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
        if absences:
            return absences
        rows = self.left.rows(left)
        timelines = Timelines(self.right.rows(right))
        schema = self.after.schema
        made = apply_step(self.step, rows, right=timelines, schema=schema, context=self.context)
        return self.after.elements(made, ends=len(rows.gone))


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
