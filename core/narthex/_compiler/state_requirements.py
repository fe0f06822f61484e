"""The steps of a pipeline that only a stateful job can run.

Other jobs process each row alone, besides an index of what a join looks up: in Spark's Real-time
Mode or in a stage. Steps that need earlier rows of their own, or read several logs, are here.
"""

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import attrs

from narthex._analysis.schemas.join_sides import joins_of
from narthex._analysis.schemas.pipelines import all_steps, output_schema, steps_of
from narthex._expr.typing import is_total
from narthex._ir.code import UserCode
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema
from narthex._ir.operators import (
    Aggregate,
    Assign,
    AssignCode,
    Changelog,
    DatasetRef,
    Dedup,
    DropNull,
    Explode,
    Filter,
    First,
    Join,
    Latest,
    Operator,
    Transform,
    Union,
)
from narthex._ir.types import Optional


class StateUse(enum.Enum):
    """The purpose for which a job keeps rows."""

    TRANSFORM = "transform"
    DEDUP = "dedup"
    EXPLODE = "explode"
    UNION = "union"
    CHANGELOG = "changelog"
    FIRST = "first"
    AFTER_AGGREGATE = "after_aggregate"
    READ_AGGREGATE = "read_aggregate"
    LATEST_OF_CORRECTED = "latest_of_corrected"
    LATEST_AND_LEFT_OUT = "latest_and_left_out"
    KEYED_JOIN = "keyed_join"
    KEYED_AGGREGATE = "keyed_aggregate"
    ALONG = "along"
    GROUP_WINDOW = "group_window"
    COMPUTED_JOIN = "computed_join"


_BY_STEP: Final[Mapping[type[Operator], StateUse]] = {
    Transform: StateUse.TRANSFORM,
    Dedup: StateUse.DEDUP,
    Explode: StateUse.EXPLODE,
    Union: StateUse.UNION,
    Changelog: StateUse.CHANGELOG,
    First: StateUse.FIRST,
}


@attrs.frozen(kw_only=True)
class StateRequirement:
    """A step that a job keeps rows for.

    Attributes:
        step: The step, with its position in the author's file.
        title: Its description for people.
    """

    state_use: StateUse
    step: Operator
    title: str


def state_requirements(
    terminal: Operator,
    infos: Mapping[str, DatasetSchemaInfo],
    contributed: Collection[str],
    *,
    in_stage: bool = False,
) -> Iterator[StateRequirement]:
    """Yield each step that needs its own state in the job, inputs before consumers.

    Args:
        terminal: The last step of a pipeline that passed `narthex._analysis.graph.check`.
        infos: The schemas of the datasets that it reads.
        contributed: Names of datasets whose logs hold contributions of aggregates.
        in_stage: Whether a stage runs the pipeline even if it has only expressions.
    """
    for step in all_steps(terminal):
        if isinstance(step, DatasetRef):
            yield from _of_read(step, step, contributed)
            continue
        state_use = _BY_STEP.get(type(step))
        if state_use is not None:
            title = "a union" if isinstance(step, Union) else f"`{type(step).__name__.lower()}`"
            yield StateRequirement(state_use=state_use, step=step, title=title)
        if any(isinstance(one, Aggregate) for one in _inputs(step)):
            yield StateRequirement(
                state_use=StateUse.AFTER_AGGREGATE, step=step, title="a step after an aggregate"
            )
        if isinstance(step, Aggregate | Latest | Join):
            yield from _of_step(step, output_schema(step.input, infos), contributed)
    yield from _latest_and_left_out(terminal, in_stage=in_stage)
    yield from _computed_joins(terminal, infos)


def _inputs(step: Operator) -> Sequence[Operator]:
    match step:
        case DatasetRef():
            return ()
        case Union():
            return (step.input, step.other)
        case _:
            return (step.input,)


def _of_read(
    ref: DatasetRef, step: Operator, contributed: Collection[str]
) -> Iterator[StateRequirement]:
    if ref.dataset in contributed:
        yield StateRequirement(
            state_use=StateUse.READ_AGGREGATE,
            step=step,
            title=f"to read `{ref.dataset}`, which ends in an aggregate,",
        )


def _of_step(
    step: Aggregate | Latest | Join, before: NodeSchema, contributed: Collection[str]
) -> Iterator[StateRequirement]:
    match step:
        case Aggregate():
            yield from _of_aggregate(step, before)
        case Latest():
            if before.correctable:
                yield StateRequirement(
                    state_use=StateUse.LATEST_OF_CORRECTED,
                    step=step,
                    title="the latest row of rows that may still be corrected",
                )
        case Join():
            yield from _of_read(step.right, step, contributed)
            if before.keys:
                yield StateRequirement(
                    state_use=StateUse.KEYED_JOIN,
                    step=step,
                    title="a join whose left side is keyed",
                )


def _of_aggregate(step: Aggregate, before: NodeSchema) -> Iterator[StateRequirement]:
    if before.keys:
        yield StateRequirement(
            state_use=StateUse.KEYED_AGGREGATE,
            step=step,
            title="an aggregate over keyed rows",
        )
    if step.along is not None:
        yield StateRequirement(state_use=StateUse.ALONG, step=step, title="`along`")
    if step.window is not None:
        yield StateRequirement(
            state_use=StateUse.GROUP_WINDOW, step=step, title="`groupby` with a window"
        )


def _latest_and_left_out(terminal: Operator, *, in_stage: bool) -> Iterator[StateRequirement]:
    """Yield the steps that leave rows out beside `latest` so that a stateless job errs.

    After `latest`, a row that is left out ends the former row, which Real-time Mode does not emit.
    Before `latest`, it has no effect, but a stage emits it as an end.
    """
    _, steps = steps_of(terminal)
    latest = [at for at, step in enumerate(steps) if isinstance(step, Latest)]
    in_stage = in_stage or any(_runs_code(step) for step in steps)
    for at, step in enumerate(steps):
        mistaken = any(at < other if in_stage else other < at for other in latest)
        if mistaken and _leaves_out(step):
            where = "before" if in_stage else "after"
            yield StateRequirement(
                state_use=StateUse.LATEST_AND_LEFT_OUT,
                step=step,
                title=f"a step {where} `latest` that leaves rows out",
            )


def _runs_code(step: Operator) -> bool:
    match step:
        case AssignCode() | Filter(predicate=UserCode()):
            return True
        case _:
            return False


def _leaves_out(step: Operator) -> bool:
    match step:
        case Filter() | DropNull() | AssignCode():
            # Code leaves the rows out on which it fails.
            return True
        case Assign():
            required = [
                assignment
                for assignment in step.assignments
                if not isinstance(assignment.type, Optional)
            ]
            return not all(is_total(one.expression) for one in required)
        case _:
            return False


def _computed_joins(
    terminal: Operator, infos: Mapping[str, DatasetSchemaInfo]
) -> Iterator[StateRequirement]:
    """Find joins on columns that the stream's log does not have."""
    ref, _ = steps_of(terminal)
    stream = infos[ref.dataset].schema
    for join, logged in joins_of(terminal):
        for (left, _), column in zip(join.on, logged, strict=True):
            if column is None or column == stream.timestamp:
                yield StateRequirement(
                    state_use=StateUse.COMPUTED_JOIN,
                    step=join,
                    title=f"a join on `{left}`, which is not a value of `{ref.dataset}` itself,",
                )
