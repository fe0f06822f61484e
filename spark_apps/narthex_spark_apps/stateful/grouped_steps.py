"""The steps of a stateful job that combine rows: they keep the rows of their inputs by group.

A changed row affects its previous and its current group. The step runs on rows as they were and on
the same rows as they are, and the difference of the two outputs is the change. It runs once on the
affected rows of all groups of a batch, because a run costs as much as some rows.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs

from narthex._ir import NodeSchema, RowId
from narthex_spark_apps.stateful.groupings import Grouping
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges, ElementCodec
from narthex_spark_apps.stateful.reach import Reach, affected_spans
from narthex_spark_apps.stateful.stateful_steps import ArrivedFacts, StateNode
from narthex_stores import StateBatch, group_at, place_of

_States: TypeAlias = tuple[list[Element], list[Element]]
"""Rows as they were before a batch, and as they are now."""

_Kept: TypeAlias = tuple[bytes, bytes]
"""The place and the bytes of a row that a step keeps."""

_ChangedGroups: TypeAlias = dict[bytes, _States]
"""The rows that changed, by group."""

_Sides: TypeAlias = tuple[Sequence[Sequence[Element]], Sequence[Sequence[Element]]]
"""The rows of each input as they were, and as they are."""


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
        changed = [
            self._stored(batch, side, node.changes(batch, arrived))
            for side, node in enumerate(self.inputs)
        ]
        output = _Output()
        reach = self.grouping.reach
        if reach is not None:
            for was, now in self._spans(batch, changed[0], reach):
                self._compare(([was], [now]), output)
        elif self.by_row:
            self._compare(self._joined(batch, changed), output)
        else:
            for group in dict.fromkeys(group for groups in changed for group in groups):
                self._compare_group(batch, group, output)
        return output.all()

    def _stored(
        self, batch: StateBatch, side: int, element_changes: ElementChanges
    ) -> _ChangedGroups:
        """Store rows at their present places; return those that changed."""
        unpack = self._before[side].unpack
        group_of = bytes if self.grouping.reach is None else group_at
        changed: _ChangedGroups = {}
        for row_id, element in element_changes.items():
            earlier, present = self._store(batch, side, row_id, element)
            if earlier == present:
                continue
            if earlier is not None:
                place, row = earlier
                changed.setdefault(group_of(place), ([], []))[0].append(unpack(row))
            if present is not None and element is not None:
                changed.setdefault(group_of(present[0]), ([], []))[1].append(element)
        return changed

    def _store(
        self, batch: StateBatch, side: int, row_id: RowId, element: Element | None
    ) -> tuple[_Kept | None, _Kept | None]:
        """Store a row; return its former and its present state, None where it has none."""
        fixed = self.grouping.fixed_place(row_id)
        before = batch.place(self.number, side, row_id) if fixed is None else fixed
        if element is None:
            now, packed, row = None, None, None
        else:
            now, packed = fixed or self._place(side, element), self._before[side].pack(element)
            row = batch.keep(self.number, side, now, row_id, packed)
        if before is not None and before != now:
            row = batch.leave(self.number, side, before, row_id)
        if fixed is None and before != now:
            batch.move(self.number, side, row_id, now)
        earlier = None if before is None or row is None else (before, row)
        return earlier, None if now is None or packed is None else (now, packed)

    def _place(self, side: int, element: Element) -> bytes:
        at = None if self.grouping.reach is None else self.grouping.instant(element)
        return place_of(self.grouping.key(side, element), at)

    def _members(self, batch: StateBatch, side: int, group: bytes) -> list[Element]:
        unpack = self._before[side].unpack
        return [unpack(row) for row in batch.members(self.number, side, group)]

    def _spans(self, batch: StateBatch, changed: _ChangedGroups, reach: Reach) -> list[_States]:
        """Return the rows of the spans of time that the changed rows affect.

        Each part has at most one span of a group, because the step would combine two.
        """
        instant, unpack = self.grouping.instant, self._before[0].unpack
        parts: list[_States] = []
        for group, (was, now) in changed.items():
            changed_ids = {element.row_id for element in (*was, *now)}
            instants = sorted({instant(element) for element in (*was, *now)})
            rows = _GroupInstants(batch, self.number, group)
            for at, (first, last) in enumerate(affected_spans(reach, instants, rows)):
                if at == len(parts):
                    parts.append(([], []))
                earlier, present = parts[at]
                span = batch.members_between(self.number, 0, group, first, last)
                here = [unpack(row) for row in span]
                present += here
                earlier += [element for element in here if element.row_id not in changed_ids]
                earlier += [element for element in was if first <= instant(element) <= last]
        return parts

    def _joined(self, batch: StateBatch, changed: Sequence[_ChangedGroups]) -> _Sides:
        """Return the left rows that the changed rows affect, and the right rows of their groups.

        A change of the right side affects all left rows of its group.
        """
        left, *others = changed
        whole = {group for groups in others for group in groups}
        earlier: list[list[Element]] = [[] for _ in changed]
        present: list[list[Element]] = [[] for _ in changed]
        for group in left.keys() | whole:
            for side, groups in enumerate(changed):
                was, now = groups.get(group, ([], []))
                if side or group in whole:
                    changed_ids = {element.row_id for element in (*was, *now)}
                    now = self._members(batch, side, group)
                    was = [*was, *(one for one in now if one.row_id not in changed_ids)]
                earlier[side] += was
                present[side] += now
        return earlier, present

    def _compare(self, sides: _Sides, output: _Output) -> None:
        """Compare the output of rows as they were with that of the same rows as they are."""
        earlier, present = sides
        before = {element.row_id: element for element in self.grouping.made(earlier)}
        pack = self._after.pack
        for element in self.grouping.made(present):
            known = before.pop(element.row_id, None)
            if known is None or pack(known) != pack(element):
                output.fresh[element.row_id] = element
        output.removed.update(dict.fromkeys(before))

    def _compare_group(self, batch: StateBatch, group: bytes, output: _Output) -> None:
        """Compare the output of all rows of a group with what was emitted for them."""
        sides = [self._members(batch, side, group) for side in range(len(self.inputs))]
        before = {
            self._after.unpack(packed).row_id: packed for packed in batch.given(self.number, group)
        }
        for element in self.grouping.made(sides) if any(sides) else ():
            packed = self._after.pack(element)
            if before.pop(element.row_id, None) != packed:
                output.fresh[element.row_id] = element
                batch.give(self.number, group, element.row_id, packed)
        for row_id in before:
            output.removed[row_id] = None
            batch.take_back(self.number, group, row_id)
