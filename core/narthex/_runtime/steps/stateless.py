"""Pipelines without state: facts of the stream side in, facts of the pipeline's log out.

Each fact is processed alone. A row that does not pass a step, and that an earlier state of its
inputs may have let pass, becomes a tombstone. A keyed row that breaks an enforced expectation
becomes a deleted row: it ends no earlier row of its key.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from narthex._analysis.schemas.pipelines import step_schema, steps_of
from narthex._formats.cells import empty_cell
from narthex._formats.keys import key_encoder, keyed_row_id
from narthex._ir.assets import LogShape, LogSpec, PipelineInput, PipelineJobSpec
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId, Version
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema, of_dataset
from narthex._ir.operators import Join, Latest
from narthex._ir.schema import Column
from narthex._runtime.enforcement import RowJudge
from narthex._runtime.steps.enforced import broken_rows
from narthex._runtime.steps.failed_rows import FailedRow
from narthex._runtime.steps.joins import JoinLookup, look_up
from narthex._runtime.steps.row_steps import RowStep, StepContext, row_step
from narthex._runtime.steps.rows import Absence, Cells, RowBatch

_PLACE_BYTES: Final = 4

StatelessStep: TypeAlias = RowStep | Join | Latest


class StepNeedsStateError(ValueError):
    """A step of the pipeline needs other rows than the one that it processes."""


@attrs.frozen(kw_only=True)
class StatelessPlan:
    """The steps of one pipeline that process each row of the stream side alone.

    Attributes:
        steps: The steps with the schemas of their results, the first one first.
        stream: The dataset whose facts are processed.
        rights: The joined datasets by name.
        log: The log of the pipeline.
        judge: Judges the rows of the result.
        context: The other needs of steps, besides rows.
    """

    steps: Sequence[tuple[StatelessStep, NodeSchema]]
    stream: PipelineInput
    rights: Mapping[str, PipelineInput]
    log: LogSpec
    judge: RowJudge
    context: StepContext

    @classmethod
    def of(cls, spec: PipelineJobSpec, context: StepContext) -> "StatelessPlan":
        """Return the plan of a job.

        Raises:
            StepNeedsStateError: A step needs a state.
        """
        infos = _infos(spec.inputs)
        schema = of_dataset(infos[spec.inputs[0].dataset])
        steps: list[tuple[StatelessStep, NodeSchema]] = []
        for step in steps_of(spec.operators)[1]:
            if not isinstance(step, StatelessStep):
                raise StepNeedsStateError(f"`{type(step).__name__.lower()}` needs state")
            schema = step_schema(step, schema, infos)
            steps.append((step, schema))
        return cls(
            steps=steps,
            stream=spec.inputs[0],
            rights={right.dataset: right for right in spec.inputs[1:]},
            log=spec.log,
            judge=RowJudge.of(spec.enforced, spec.schema.columns),
            context=context,
        )

    def run(
        self, facts: Sequence[Fact], *, lookup: JoinLookup, version_suffix: bytes = b""
    ) -> list[Fact]:
        """Turn facts of the stream side into facts of the pipeline's log.

        A row on which a step fails does not pass it; `StepContext.set_apart` receives it with the
        row id of its fact.

        Args:
            facts: States of the stream side, including tombstones.
            lookup: Looks up right rows.
            version_suffix: Orders this computation after earlier ones of the same rows.

        Raises:
            UserCodeError: Author code failed, and failed rows are not set apart.
            SandboxUnavailable: No worker could be started for author code.
        """
        context = self._context(facts)
        rows = _rows_by_place(facts, of_dataset(_infos([self.stream])[self.stream.dataset]))
        for step, schema in self.steps:
            match step:
                case Join():
                    right = self.rights[step.right.dataset]
                    rows = look_up(step, rows, right, lookup, schema)
                case Latest():
                    # The log keeps the newest version of each identity.
                    rows = attrs.evolve(rows, schema=schema)
                case _:
                    rows = row_step(step, rows, schema, context)
        outcomes = zip(facts, self._outcomes(rows, facts), strict=True)
        return [
            self._fact(fact, outcome, version_suffix)
            for fact, outcome in outcomes
            if outcome is not None
        ]

    def _context(self, facts: Sequence[Fact]) -> StepContext:
        """Return the context of a batch whose row ids are places of facts."""
        set_apart = self.context.set_apart
        if set_apart is None:
            return self.context

        def with_own_ids(failed: Sequence[FailedRow]) -> None:
            ids = [facts[_place_of(row.row_id)].row_id for row in failed]
            set_apart([attrs.evolve(row, row_id=i) for row, i in zip(failed, ids, strict=True)])

        return attrs.evolve(self.context, set_apart=with_own_ids)

    def _outcomes(self, rows: RowBatch, facts: Sequence[Fact]) -> list["_Outcome | None"]:
        """Return the outcome of each fact; None for one that never had an effect."""
        made: list[_Outcome | None] = [None] * len(facts)
        if rows.schema.correctable and not rows.schema.keys:
            key = tuple(empty_cell(column.type) for column in self.log.keys)
            made = [_Outcome(key)] * len(facts)
        names = [column.name for column in rows.schema.keys]
        order = [names.index(column.name) for column in self.log.keys] if names else []
        for absence in rows.gone:
            made[_place_of(absence.id)] = _Outcome(tuple([absence.cells[at] for at in order]))
        broken = self._broken(rows, facts)
        keys = _cells(rows, self.log.keys)
        values = _cells(rows, self.log.values)
        for at, (row_id, key, cells) in enumerate(zip(rows.ids, keys, values, strict=True)):
            if at not in broken:
                made[_place_of(row_id)] = _Outcome(key, cells)
            elif self.log.shape is LogShape.KEYED:
                made[_place_of(row_id)] = _Outcome(key, deleted=True)
        return made

    def _broken(self, rows: RowBatch, facts: Sequence[Fact]) -> Collection[int]:
        """Return the places of the rows that break an expectation, and report these rows."""
        if not self.judge:
            return ()
        broken = self.judge.broken_rows(rows.columns(self.judge.columns))
        if broken and self.context.report_broken is not None:
            ids = [facts[_place_of(row_id)].row_id for row_id in rows.ids]
            self.context.report_broken(broken_rows(rows, broken, ids))
        return broken

    def _fact(self, of: Fact, outcome: "_Outcome", suffix: bytes) -> Fact:
        key, values = outcome.key, outcome.values
        row_id, version = of.row_id, Version(of.version + suffix)
        if self._is_latest:
            # Among rows with the same instant the last one wins: identities sort in source order.
            version = Version(row_id + version)
            row_id = keyed_row_id(key_encoder(self.log.keys)(key), of.event_time)
        return Fact(
            row_id=row_id,
            version=version,
            event_time=TOMBSTONE_TIME if outcome.deleted else of.event_time,
            key=key,
            values=(None,) * len(self.log.values) if values is None else values,
            alive=values is not None,
        )

    @property
    def _is_latest(self) -> bool:
        return any(isinstance(step, Latest) for step, _ in self.steps)


@attrs.frozen
class _Outcome:
    """The key and the values of a fact of the log; no values for a tombstone.

    Attributes:
        deleted: The tombstone removes the row at all instants, and not the key from one on.
    """

    key: tuple[Cell, ...]
    values: tuple[Cell, ...] | None = None
    deleted: bool = False


def _infos(inputs: Iterable[PipelineInput]) -> dict[str, DatasetSchemaInfo]:
    return {
        given.dataset: DatasetSchemaInfo(
            name=given.dataset, schema=given.schema, correctable=given.correctable
        )
        for given in inputs
    }


def _rows_by_place(facts: Sequence[Fact], schema: NodeSchema) -> RowBatch:
    """Convert facts to rows whose ids are their places: one batch may have two states of a row."""
    places = [RowId(place.to_bytes(_PLACE_BYTES, "big")) for place in range(len(facts))]
    living = [place for place, fact in enumerate(facts) if fact.alive]
    cells: dict[str, Cells] = {
        column.name: [facts[place].key[at] for place in living]
        for at, column in enumerate(schema.keys)
    }
    cells |= {
        column.name: [facts[place].values[at] for place in living]
        for at, column in enumerate(schema.values)
    }
    dead = zip(places, facts, strict=True) if schema.keys else ()
    return RowBatch(
        schema=schema,
        ids=[places[place] for place in living],
        times=[facts[place].event_time for place in living],
        cells=cells,
        gone=tuple(
            Absence(id=place, time=fact.event_time, cells=fact.key)
            for place, fact in dead
            if not fact.alive
        ),
    )


def _place_of(row_id: RowId) -> int:
    return int.from_bytes(row_id, "big")


def _cells(rows: RowBatch, columns: Sequence[Column]) -> Iterable[tuple[Cell, ...]]:
    if not columns:
        return [()] * len(rows)
    return zip(*(rows.column(column.name) for column in columns), strict=True)
