"""An engine of stateful trees alone: every pipeline of a project over states in directories."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from narthex._analysis.graph import typed_datasets
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.log_specs import final_aggregate
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import AssetRef, LogSpec, PipelineJobSpec
from narthex._ir.entities import Definitions
from narthex._ir.facts import TOMBSTONE_TIME, Cell, Fact, RowId
from narthex._ir.node_schema import of_dataset
from narthex._ir.operators import Aggregate
from narthex._runtime.steps import (
    ABSENT,
    FailedRow,
    RowBatch,
    StepContext,
    Timelines,
    facts_of,
    rows_of,
    rows_of_dataset,
)
from narthex._runtime.steps.logged import decayed
from narthex._runtime.steps.plain_groups import PlainGroups
from narthex._testing.in_process import InProcessCalls
from narthex_reference.engine import Answer
from narthex_spark_apps.stateful.rows_and_tombstones import RowEmitter
from narthex_spark_apps.stateful.step_tree import tree_of
from narthex_stores import JobState, StateBatch
from tests.core.runtime.contribution_logs import contributed


def forget(failed: Sequence[FailedRow]) -> None:
    """Drop rows on which code failed: the comparison is about the others."""


class Log:
    """The facts of a dataset's log: of each identity the newest state."""

    def __init__(self) -> None:
        self.facts: dict[RowId, Fact] = {}

    def take(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            known = self.facts.get(fact.row_id)
            if known is None or known.version < fact.version:
                self.facts[fact.row_id] = fact

    def standing(self) -> list[Fact]:
        """Return the rows and absences, without those that are no more."""
        return [fact for fact in self.facts.values() if fact.event_time != TOMBSTONE_TIME]


class Job:
    """A pipeline over a state of its own."""

    def __init__(
        self, spec: PipelineJobSpec, topics: Mapping[str, AssetRef], directory: Path
    ) -> None:
        directory.mkdir(parents=True)
        self.output = topics[spec.dataset]
        self.reads = {one.dataset: topics[one.dataset] for one in spec.inputs}
        context = StepContext(calls=InProcessCalls(), title=f"`{spec.dataset}`", set_apart=forget)
        self._tree = tree_of(spec, context)
        self._told = RowEmitter.of(spec, self._tree.schema)
        self._codec = fact_codec(spec.log)
        self._state = JobState(directory, epoch=1, map_size=1 << 20)

    def take(self, arrived: Mapping[str, Sequence[Fact]]) -> list[Fact]:
        """Process facts and return the output."""

        def work(batch: StateBatch) -> list[tuple[bytes, bytes]]:
            return self._told.records(batch, self._tree.changes(batch, arrived))

        told = self._codec.decode_many([value for _, value in self._state.run(work)])
        return list(told)


class StatefulEngine:
    """Runs each pipeline as the stateful stage does, but for the broker."""

    def __init__(self, definitions: Definitions) -> None:
        directory = Path(tempfile.mkdtemp(prefix="narthex-engine-"))
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        blueprint = compile_blueprint(definitions)
        self._datasets = {one.name: one for one in definitions.datasets}
        # Datasets that mean the same share one log, and the job that fills it.
        self._topics = {
            path.split("/")[1]: one.ref
            for one in blueprint.assets
            for path in one.paths
            if path.startswith("dataset/") and path.endswith("/log")
        }
        self._logs = {topic: Log() for topic in self._topics.values()}
        self._plans = {plan.name: plan for plan in blueprint.datasets}
        typed = typed_datasets(definitions)
        self._infos = {one.info.name: one.info for one in typed}
        self._nodes = {one.dataset.name: one.node for one in typed if one.node is not None}
        self._jobs = [
            self._job(one.spec, directory / str(at))
            for at, one in enumerate(blueprint.assets)
            if isinstance(one.spec, PipelineJobSpec)
        ]

    def _job(self, spec: PipelineJobSpec, directory: Path) -> Job:
        return Job(spec, self._topics, directory)

    def append(self, dataset: str, facts: Sequence[Fact]) -> None:
        """Process facts; each job processes the output of the jobs before it."""
        topic = self._topics[dataset]
        arrived: dict[AssetRef, list[Fact]] = {topic: list(facts)}
        self._logs[topic].take(facts)
        for job in self._jobs:
            told = job.take({name: arrived.get(ref, []) for name, ref in job.reads.items()})
            self._logs[job.output].take(told)
            arrived.setdefault(job.output, []).extend(told)

    def facts(self, dataset: str) -> tuple[Fact, ...]:
        """Return the current facts, sorted by event time and row id."""
        schema = self._datasets[dataset].schema
        return facts_of(self._rows(dataset), schema.values)

    def lookup(
        self, dataset: str, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[Answer | None]:
        """Return the value of each key as of its instant."""
        aggregate = final_aggregate(self._datasets[dataset])
        if aggregate is not None and aggregate.window is None:
            return self._folded(dataset, aggregate, keys, as_of)
        rows = self._rows(dataset)
        timelines, log = Timelines(rows), self._plans[dataset].log
        oldest = self._oldest_visible(dataset, max(rows.times, default=None), as_of)
        return [
            self._answer(log, timelines, key, at, first)
            for key, at, first in zip(keys, as_of, oldest, strict=True)
        ]

    def _oldest_visible(
        self, dataset: str, newest: int | None, as_of: Sequence[int]
    ) -> Sequence[int]:
        """Return the event time before which a lookup sees no row, for each instant."""
        spec = self._plans[dataset].index
        return [spec.oldest_visible(at, newest) for at in as_of]

    @staticmethod
    def _answer(
        log: LogSpec, timelines: Timelines, key: tuple[Cell, ...], as_of: int, oldest: int
    ) -> Answer | None:
        timeline = timelines.of(key)
        found = None if timeline is None else timeline.floor(as_of)
        if found is None or found[1] == ABSENT or found[0] < oldest:
            return None
        rows = timelines.rows
        values = tuple([rows.column(column.name)[found[1]] for column in rows.schema.values])
        return Answer(decayed(log, values, found[0], as_of), found[0])

    def _folded(
        self,
        dataset: str,
        aggregate: Aggregate,
        keys: Sequence[tuple[Cell, ...]],
        as_of: Sequence[int],
    ) -> Sequence[Answer | None]:
        groups = self._groups(dataset, aggregate)
        schema = self._datasets[dataset].schema
        order = [[c.name for c in schema.keys].index(c.name) for c in groups.schema.keys]
        names = [column.name for column in groups.schema.values]
        values = [names.index(column.name) for column in schema.values]
        oldest = self._oldest_visible(dataset, groups.newest, as_of)
        found = [
            groups.answer(tuple([key[at] for at in order]), asked_at, oldest=first)
            for key, asked_at, first in zip(keys, as_of, oldest, strict=True)
        ]
        return [
            None if one is None else Answer(tuple([one[0][at] for at in values]), one[1])
            for one in found
        ]

    def _rows(self, dataset: str) -> RowBatch:
        one = self._datasets[dataset]
        aggregate = final_aggregate(one)
        if aggregate is None or aggregate.window is not None:
            schema = of_dataset(self._infos[dataset])
            return rows_of(self._logs[self._topics[dataset]].standing(), schema)
        groups = self._groups(dataset, aggregate)
        return rows_of_dataset(groups.versions(), one.schema)

    def _groups(self, dataset: str, aggregate: Aggregate) -> PlainGroups:
        facts = self._logs[self._topics[dataset]].facts.values()
        log = self._plans[dataset].log
        # Keyless rows were placed by `along` when they were logged.
        step = aggregate if log.lives else attrs.evolve(aggregate, along=None)
        return PlainGroups(step, contributed(facts, log), self._nodes[dataset])


def engine_of(definitions: Definitions) -> StatefulEngine:
    """Make an engine for definitions, to be compared with another."""
    return StatefulEngine(definitions)
