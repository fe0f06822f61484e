"""The steps of a stateful job: row changes in, row changes out.

A step on single rows keeps no state. Every other step keeps its rows by group in the job's state: a
changed row affects its previous and its current group, and the step compares the output of
`narthex._runtime.steps` for each affected group with the previous output.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias

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
    validity_of,
    versions_of,
)
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges, ElementCodec
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

    @property
    def is_per_row(self) -> bool:
        """Whether a row of the first side gives at most one row, with its own id.

        It then depends on the other sides, but on no other row of its own side.
        """

    def key(self, side: int, element: Element) -> bytes:
        """Return the canonical bytes of the group of a row."""

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Apply the step to the rows of a group, side by side."""


@attrs.frozen(kw_only=True)
class Grouped:
    """A step on groups of rows.

    Attributes:
        number: The number of the step in the tree.
    """

    number: int
    inputs: tuple[StateNode, ...]
    grouping: Grouping
    schema: NodeSchema
    _before: tuple[ElementCodec, ...] = attrs.field(init=False)
    _after: ElementCodec = attrs.field(init=False)

    @_before.default
    def _make_before(self) -> tuple[ElementCodec, ...]:
        return tuple(ElementCodec(node.schema) for node in self.inputs)

    @_after.default
    def _make_after(self) -> ElementCodec:
        return ElementCodec(self.schema)

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Store the changed rows; compare the new and previous output of each affected group."""
        invalidations: dict[bytes, dict[RowId, None]] = {}
        whole: set[bytes] = set()
        for side, node in enumerate(self.inputs):
            is_alone = self.grouping.is_per_row and side == 0
            for row_id, element in node.changes(batch, arrived).items():
                for group in self._kept(batch, side, row_id, element):
                    invalidations.setdefault(group, {})[row_id] = None
                    if not is_alone:
                        whole.add(group)
        element_changes: ElementChanges = {}
        fresh: ElementChanges = {}
        for group, row_ids in invalidations.items():
            rows = None if group in whole else row_ids
            self._compare(batch, group, rows, element_changes, fresh)
        # A row that moved from one group to another still exists.
        return element_changes | fresh

    def _kept(
        self,
        batch: StateBatch,
        side: int,
        row_id: RowId,
        element: Element | None,
    ) -> list[bytes]:
        """Store a row in its current group; return the groups that have changed."""
        before = batch.place(self.number, side, row_id)
        if element is None:
            if before is None:
                return []
            batch.leave(self.number, side, before, row_id)
            return [before]
        packed = self._before[side].pack(element)
        was = None if before is None else batch.kept(self.number, side, before, row_id)
        key = self.grouping.key(side, element)
        now = batch.keep(self.number, side, key, row_id, packed)
        if before is None:
            return [now]
        if before == now:
            return [] if was == packed else [now]
        batch.forget(self.number, side, before, row_id)
        return [before, now]

    def _compare(
        self,
        batch: StateBatch,
        group: bytes,
        row_ids: Iterable[RowId] | None,
        found: ElementChanges,
        fresh: ElementChanges,
    ) -> None:
        """Compare the outputs of a group, or of these rows of its first side."""
        first = self._first_side(batch, group, row_ids)
        sides = [first, *(self._members(batch, side, group) for side in range(1, len(self.inputs)))]
        made = self.grouping.made(sides) if any(sides) else []
        codec = self._after
        given = self._given(batch, group, row_ids)
        codec = self._after
        for element in made:
            packed = codec.pack(element)
            if given.pop(element.row_id, None) != packed:
                batch.give(self.number, group, element.row_id, packed)
                fresh[element.row_id] = element
        for row_id in given:
            batch.take_back(self.number, group, row_id)
            found[row_id] = None

    def _members(self, batch: StateBatch, side: int, group: bytes) -> list[Element]:
        return list(map(self._before[side].unpack, batch.members(self.number, side, group)))

    def _first_side(
        self, batch: StateBatch, group: bytes, row_ids: Iterable[RowId] | None
    ) -> list[Element]:
        if row_ids is None:
            return self._members(batch, 0, group)
        kept = [batch.kept(self.number, 0, group, row_id) for row_id in row_ids]
        return [self._before[0].unpack(packed) for packed in kept if packed is not None]

    def _given(
        self, batch: StateBatch, group: bytes, row_ids: Iterable[RowId] | None
    ) -> dict[RowId, bytes]:
        if row_ids is None:
            rows = batch.given(self.number, group)
            return {self._after.unpack(row).row_id: row for row in rows}
        given = {row_id: batch.given_row(self.number, group, row_id) for row_id in row_ids}
        return {row_id: packed for row_id, packed in given.items() if packed is not None}


@attrs.frozen(kw_only=True)
class ByColumns:
    """Groups of rows with the same cells in some columns, and the step on each group.

    Steps that compare only rows of one instant, or of one window, have a group for each. So a
    group has few rows, whatever the number of rows of a key.

    Attributes:
        alone: Whether each row is a group of its own.
    """

    is_per_row: ClassVar[bool] = False

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

    is_per_row: ClassVar[bool] = False
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

    is_per_row: ClassVar[bool] = False
    codec: ElementCodec
    absences: bool

    def key(self, _side: int, element: Element) -> bytes:
        """Return the bytes of the key."""
        return self.codec.key(element)

    def made(self, sides: Sequence[Sequence[Element]]) -> list[Element]:
        """Return each row with its validity interval."""
        rows = self.codec.rows(sides[0])
        living = self.codec.elements(rows, ends=len(rows.gone))
        found: list[Element] = []
        for key, timeline in Timelines(rows).by_key.items():
            for begin, place, end in timeline.lives():
                found.append(attrs.evolve(living[place], life=(begin, end)))
            if self.absences and timeline.places:
                # The first place is a row: an absence that ends nothing is omitted.
                cells = rows.key_cells(timeline.places[0])
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

    @property
    def is_per_row(self) -> bool:
        """Whether a left row gives at most one row; a keyed one gives one for each right row."""
        return not self.left.schema.keys

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
