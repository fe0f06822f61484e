"""An engine that runs each pipeline by its trigger, without the broker, indexes and Spark.

A pipeline with a state, or with a join, which needs an index, runs over a state. All others run as
stages process them: each batch of facts alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from narthex._analysis.schemas.pipelines import all_steps
from narthex._ir.assets import AssetRef, PipelineJobSpec, Trigger
from narthex._ir.entities import Definitions
from narthex._ir.facts import Fact
from narthex._ir.operators import Join
from narthex._runtime.steps import StatelessPlan, StepContext
from narthex._testing.in_process import InProcessCalls
from tests.spark_apps.stateful.stateful_engine import Job, StatefulEngine, forget


class StatelessJob(Job):
    """A pipeline without a state."""

    def __init__(self, spec: PipelineJobSpec, topics: Mapping[str, AssetRef]) -> None:
        self.output = topics[spec.dataset]
        self.reads = {one.dataset: topics[one.dataset] for one in spec.inputs}
        context = StepContext(calls=InProcessCalls(), title=f"`{spec.dataset}`", set_apart=forget)
        self._stream = spec.inputs[0].dataset
        self._plan = StatelessPlan.of(spec, context)

    @override
    def take(self, arrived: Mapping[str, Sequence[Fact]]) -> list[Fact]:
        return self._plan.run(arrived[self._stream], lookup=no_lookup)


def no_lookup(*_: object) -> list[None]:
    raise AssertionError("a pipeline with a join runs over a state")


class StatelessEngine(StatefulEngine):
    """Runs each pipeline that needs no state and no index without them."""

    @override
    def _job(self, spec: PipelineJobSpec, directory: Path) -> Job:
        has_join = any(isinstance(step, Join) for step in all_steps(spec.operators))
        if spec.trigger is Trigger.STATEFUL or has_join:
            return super()._job(spec, directory)
        return StatelessJob(spec, self._topics)


def engine_of(definitions: Definitions) -> StatelessEngine:
    """Make an engine for definitions, to be compared with another."""
    return StatelessEngine(definitions)
