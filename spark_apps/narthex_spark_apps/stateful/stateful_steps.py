"""The steps of a stateful job: row changes in, row changes out.

A step on single rows keeps no state. Every other step keeps its rows by group in the job's state: a
changed row affects its previous and its current group, and the step compares the output of
`narthex._runtime.steps` for each affected group with the previous output.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import msgspec

from narthex._ir import (
    TOMBSTONE_TIME,
    Fact,
    LogShape,
    NodeSchema,
    PipelineInput,
    RowId,
)
from narthex._runtime.steps import RowStep, StepContext, apply_step, side_id, validity_of
from narthex_spark_apps.stateful.groupings import Grouping
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges, ElementCodec
from narthex_spark_apps.stateful.reach import Reach, affected_spans
from narthex_stores import StateBatch, group_at, place_of

ArrivedFacts: TypeAlias = Mapping[str, Sequence[Fact]]
"""Facts that arrived, by the dataset of their log."""


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
    _count: int = attrs.field(init=False)
    _has_lives: bool = attrs.field(init=False)

    @_count.default
    def _count_inputs(self) -> int:
        return len(self.given.log.inputs)

    @_has_lives.default
    def _find_lives(self) -> bool:
        return self.given.log.lives

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
            cells = (*fact.key, *fact.values[: self._count])
            life = validity_of(fact) if self._has_lives else None
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
                    element_changes[fresh] = msgspec.structs.replace(
                        element, row_id=fresh, cells=cells
                    )
        return element_changes


def _order(given: NodeSchema, wanted: NodeSchema) -> list[int]:
    names = [column.name for column in (*given.keys, *given.values)]
    return [names.index(column.name) for column in (*wanted.keys, *wanted.values)]


@attrs.frozen
class _Stored:
    """A row that was stored, as it was before and as it is now.

    Attributes:
        before: Its former place; None if it was not stored.
        was: Its former bytes.
        now: Its place; None if it no longer exists.
        packed: Its bytes.
    """

    before: bytes | None
    was: bytes | None
    now: bytes | None
    packed: bytes | None

    def states(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield (place, bytes, 0 for the former state or 1 for the present one) if it changed."""
        if (self.before, self.was) == (self.now, self.packed):
            return
        if self.before is not None and self.was is not None:
            yield self.before, self.was, 0
        if self.now is not None and self.packed is not None:
            yield self.now, self.packed, 1


_Changed: TypeAlias = tuple[list[bytes], list[bytes]]
"""The former and the present states of the rows of a group that changed."""


def _changed(
    stored: Iterable[_Stored], group_of: Callable[[bytes], bytes] = bytes
) -> dict[bytes, _Changed]:
    """Return the rows that changed by their groups; by default, places are groups."""
    changed: dict[bytes, _Changed] = {}
    for row in stored:
        for place, packed, at in row.states():
            changed.setdefault(group_of(place), ([], []))[at].append(packed)
    return changed


@attrs.frozen
class _Output:
    """The changes of the output of a step.

    Attributes:
        removed: The rows that a group no longer has.
        fresh: The rows that are new or different.
    """

    removed: ElementChanges = attrs.field(factory=dict)
    fresh: ElementChanges = attrs.field(factory=dict)

    def all(self) -> ElementChanges:
        """Return all changes; a row that moved from one group to another still exists."""
        return self.removed | self.fresh


@attrs.frozen
class _GroupInstants:
    """The instants of the rows that a step keeps in a group."""

    batch: StateBatch
    step: int
    group: bytes

    def before(self, instant: int) -> Iterator[int]:
        return self.batch.instants_before(self.step, 0, self.group, instant)

    def after(self, instant: int) -> Iterator[int]:
        return self.batch.instants_after(self.step, 0, self.group, instant)


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
        output = _Output()
        reach = self.grouping.reach
        if reach is not None:
            for group, rows in _changed(stored[0], group_at).items():
                self._compare_spans(batch, group, rows, reach, output)
            return output.all()
        # A change of the right side of a join affects all rows of its group.
        in_groups = stored[1:] if self.by_row else stored
        groups = _changed(row for rows in in_groups for row in rows)
        for group in groups:
            self._compare(batch, group, output)
        if self.by_row:
            for group, rows in _changed(stored[0]).items():
                if group not in groups:
                    self._compare_rows(batch, group, rows, output)
        return output.all()

    def _store(
        self, batch: StateBatch, side: int, row_id: RowId, element: Element | None
    ) -> _Stored:
        """Store a row at its present place."""
        before = batch.place(self.number, side, row_id)
        was = None if before is None else batch.kept(self.number, side, before, row_id)
        if element is None:
            if before is not None:
                batch.leave(self.number, side, before, row_id)
            return _Stored(before, was, None, None)
        packed = self._before[side].pack(element)
        at = None if self.grouping.reach is None else self.grouping.instant(element)
        now = place_of(self.grouping.key(side, element), at)
        batch.keep(self.number, side, now, row_id, packed, before=before)
        return _Stored(before, was, now, packed)

    def _members(self, batch: StateBatch, side: int, group: bytes) -> list[Element]:
        unpack = self._before[side].unpack
        return [unpack(row) for row in batch.members(self.number, side, group)]

    def _compare(self, batch: StateBatch, group: bytes, output: _Output) -> None:
        """Compare the output of all rows of a group with what was emitted for them."""
        sides = [self._members(batch, side, group) for side in range(len(self.inputs))]
        made = self.grouping.made(sides) if any(sides) else []
        before = dict.fromkeys(batch.given(self.number, group))
        self._store_output(batch, group, self._replace(before, made, output))

    def _compare_rows(
        self, batch: StateBatch, group: bytes, changed: _Changed, output: _Output
    ) -> None:
        """Compare the output of rows of a group with the output of what they were before."""
        others = [self._members(batch, side, group) for side in range(1, len(self.inputs))]
        was, now = ([self._before[0].unpack(row) for row in rows] for rows in changed)
        before = self._emitted([was, *others])
        made = self.grouping.made([now, *others]) if now else []
        self._store_output(batch, group, self._replace(before, made, output))

    def _compare_spans(
        self, batch: StateBatch, group: bytes, changed: _Changed, reach: Reach, output: _Output
    ) -> None:
        """Compare the outputs of the spans of time that the changed rows affect."""
        instant, unpack = self.grouping.instant, self._before[0].unpack
        was, now = ([unpack(row) for row in rows] for rows in changed)
        changed_ids = {element.row_id for element in (*was, *now)}
        instants = sorted({instant(element) for element in (*was, *now)})
        rows = _GroupInstants(batch, self.number, group)
        for first, last in affected_spans(reach, instants, rows):
            span = batch.members_between(self.number, 0, group, first, last)
            present = [unpack(row) for row in span]
            earlier = [element for element in present if element.row_id not in changed_ids]
            earlier += [element for element in was if first <= instant(element) <= last]
            earlier.sort(key=lambda element: (instant(element), element.row_id))
            made = self.grouping.made([present]) if present else []
            self._replace(self._emitted([earlier]), made, output)

    def _emitted(self, sides: Sequence[Sequence[Element]]) -> dict[bytes, None]:
        """Return the bytes of the output of earlier rows."""
        made = self.grouping.made(sides) if sides[0] else []
        return dict.fromkeys(self._after.pack(element) for element in made)

    def _replace(
        self, before: dict[bytes, None], made: Sequence[Element], output: _Output
    ) -> dict[RowId, bytes | None]:
        """Add the difference between the former output, as bytes, and the present one.

        Returns:
            The bytes of the rows that changed; None for a row that is removed.
        """
        changed: dict[RowId, bytes | None] = {}
        for element in made:
            packed = self._after.pack(element)
            if packed in before:
                del before[packed]
                continue
            output.fresh[element.row_id] = element
            changed[element.row_id] = packed
        for packed in before:
            row_id = self._after.unpack(packed).row_id
            if row_id not in changed:
                output.removed[row_id] = None
                changed[row_id] = None
        return changed

    def _store_output(
        self, batch: StateBatch, group: bytes, changed: Mapping[RowId, bytes | None]
    ) -> None:
        for row_id, packed in changed.items():
            if packed is None:
                batch.take_back(self.number, group, row_id)
            else:
                batch.give(self.number, group, row_id, packed)
