"""Build the tree of a pipeline's steps."""

from collections.abc import Mapping
from itertools import count
from typing import assert_never

from narthex._analysis.schemas import output_schema
from narthex._ir import (
    Aggregate,
    Changelog,
    DatasetRef,
    DatasetSchemaInfo,
    Dedup,
    Explode,
    First,
    Join,
    Latest,
    LogShape,
    NodeSchema,
    Operator,
    PipelineInput,
    PipelineJobSpec,
    Union,
    of_dataset,
)
from narthex._runtime.enforcement import RowJudge
from narthex._runtime.steps import StepContext
from narthex_spark_apps.stateful.grouped_steps import Grouped
from narthex_spark_apps.stateful.groupings import (
    ByColumns,
    ByJoin,
    ByKey,
    Grouping,
    GroupStep,
    VersionsOf,
)
from narthex_spark_apps.stateful.kept_rows import ElementCodec
from narthex_spark_apps.stateful.stateful_steps import Both, EachRow, Enforced, Leaf, StateNode


def tree_of(spec: PipelineJobSpec, context: StepContext) -> StateNode:
    """Return the steps of a job; contributions of keyed rows have validity intervals."""
    tree = _Tree(spec, context)
    node = tree.node(spec.operators)
    if spec.log.shape is LogShape.CONTRIBUTIONS and node.schema.keys:
        return tree.lives(node, absences=False)
    judge = RowJudge.of(spec.enforced, spec.schema.columns)
    return Enforced(judge=judge, input=node, schema=node.schema, context=context) if judge else node


class _Tree:
    """Numbers each step: the same pipeline always gets the same numbers."""

    def __init__(self, spec: PipelineJobSpec, context: StepContext) -> None:
        self._inputs: Mapping[str, PipelineInput] = {one.dataset: one for one in spec.inputs}
        self._infos = {
            one.dataset: DatasetSchemaInfo(
                name=one.dataset, schema=one.schema, correctable=one.correctable
            )
            for one in spec.inputs
        }
        self._context = context
        self._numbers = count()

    def node(self, operator: Operator) -> StateNode:
        match operator:
            case DatasetRef():
                return self._read(operator)
            case Union():
                sides = (self.node(operator.input), self.node(operator.other))
                return Both(sides=sides, schema=self._schema(operator))
            case Join():
                return self._join(operator)
            case Aggregate() | First() | Latest() | Dedup() | Changelog() | Explode():
                return self._by_group(operator)
            case _:
                return EachRow(
                    step=operator,
                    input=self.node(operator.input),
                    schema=self._schema(operator),
                    context=self._context,
                )

    def _by_group(self, operator: GroupStep) -> StateNode:
        before = self.node(operator.input)
        match operator:
            case Aggregate():
                given = self.lives(before, absences=False) if before.schema.keys else before
                return self._by(operator, given, operator.by)
            case First() | Latest() | Dedup():
                return self._by(operator, before, operator.by)
            case Changelog():
                keys = tuple(column.name for column in before.schema.keys)
                return self._by(operator, before, keys)
            case Explode():
                return self._by(operator, before, (), alone=True)
            case _:
                assert_never(operator)

    def _schema(self, operator: Operator) -> NodeSchema:
        return output_schema(operator, self._infos)

    def _read(self, ref: DatasetRef) -> StateNode:
        given = self._inputs[ref.dataset]
        schema = of_dataset(self._infos[ref.dataset])
        if given.aggregate is None:
            return Leaf(number=next(self._numbers), given=given, schema=schema)
        logged = NodeSchema(
            keys=(),
            values=(*given.log.keys, *given.log.inputs),
            timestamp=given.log.time_field,
            correctable=True,
        )
        leaf = Leaf(number=next(self._numbers), given=given, schema=logged)
        before, after = ElementCodec(logged), ElementCodec(schema)
        grouping = VersionsOf(given=given, before=before, after=after)
        return self._grouped((leaf,), grouping, schema)

    def _by(
        self, step: GroupStep, before: StateNode, by: tuple[str, ...], *, alone: bool = False
    ) -> StateNode:
        schema = self._schema(step)
        grouping = ByColumns(
            step=step,
            before=ElementCodec(before.schema),
            after=ElementCodec(schema),
            by=by,
            context=self._context,
            alone=alone,
        )
        return self._grouped((before,), grouping, schema)

    def lives(self, before: StateNode, *, absences: bool) -> StateNode:
        """Return keyed rows with their validity intervals."""
        grouping = ByKey(codec=ElementCodec(before.schema), absences=absences)
        return self._grouped((before,), grouping, before.schema)

    def _join(self, join: Join) -> StateNode:
        left = self.node(join.input)
        if left.schema.keys:
            left = self.lives(left, absences=True)
        right = self._read(join.right)
        schema = self._schema(join)
        grouping = ByJoin(
            step=join,
            left=ElementCodec(left.schema),
            right=ElementCodec(right.schema),
            after=ElementCodec(schema),
            context=self._context,
        )
        return self._grouped((left, right), grouping, schema, by_row=True)

    def _grouped(
        self,
        inputs: tuple[StateNode, ...],
        grouping: Grouping,
        schema: NodeSchema,
        *,
        by_row: bool = False,
    ) -> Grouped:
        return Grouped(
            number=next(self._numbers),
            inputs=inputs,
            grouping=grouping,
            schema=schema,
            by_row=by_row,
        )
