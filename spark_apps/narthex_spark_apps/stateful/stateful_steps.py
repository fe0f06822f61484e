"""The steps of a stateful job: row changes in, row changes out.

The steps here handle each row alone and keep no rows; those of `grouped_steps` combine rows.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import msgspec

from narthex._ir import (
    TOMBSTONE_TIME,
    Fact,
    LogShape,
    NodeSchema,
    PipelineInput,
)
from narthex._runtime.enforcement import RowJudge
from narthex._runtime.steps import (
    RowStep,
    StepContext,
    apply_step,
    enforce,
    side_id,
    validity_of,
)
from narthex_spark_apps.stateful.kept_rows import Element, ElementChanges, ElementCodec
from narthex_stores import StateBatch

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
class Enforced:
    """The rows of a dataset that meet its enforced expectations, and all absences.

    A row that a correction makes break one is deleted: it ends no earlier row of its key.
    """

    judge: RowJudge
    input: StateNode
    schema: NodeSchema
    context: StepContext
    _codec: ElementCodec = attrs.field(init=False)

    @_codec.default
    def _make_codec(self) -> ElementCodec:
        return ElementCodec(self.schema)

    def changes(self, batch: StateBatch, arrived: ArrivedFacts) -> ElementChanges:
        """Judge the rows that changed."""
        given = self.input.changes(batch, arrived)
        living = [element for element in given.values() if element is not None and element.alive]
        if not living:
            return given
        rows = self._codec.rows(living)
        kept = enforce(rows, self.judge, self.context.report_broken)
        if len(kept) == len(rows):
            return given
        ids = {element.row_id for element in living} - set(kept.ids)
        return {row_id: None if row_id in ids else one for row_id, one in given.items()}


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
