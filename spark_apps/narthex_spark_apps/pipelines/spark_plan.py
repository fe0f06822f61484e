"""Pipelines of expressions as Spark columns: facts in, facts out, with their identities."""

import json
from collections.abc import Mapping

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from narthex._base import from_plain, to_plain
from narthex._expr import fit
from narthex._ir import (
    Aggregate,
    Assign,
    AssignCode,
    DatasetRef,
    DataType,
    Drop,
    DropNull,
    Filter,
    Join,
    Latest,
    LogShape,
    LogSpec,
    Operator,
    Optional,
    PipelineInput,
    PipelineJobSpec,
    Rename,
    ResolvedAsset,
    Select,
    UserCode,
    inner,
)
from narthex.settings import Settings
from narthex_spark_apps.expressions import NotRenderedError, Scope, render
from narthex_spark_apps.facts.fact_columns import (
    ALIVE,
    EVENT_TIME,
    ROW_ID,
    VERSION,
    SparkFactColumns,
    fact_record,
    public_columns,
    read_facts,
)
from narthex_spark_apps.facts.identities import key_bytes, keyed_row_id
from narthex_spark_apps.platform.kafka_io import JobRun, read_topics, write_records
from narthex_stores import platform_broker

COUNTS = "counts"


@attrs.frozen(kw_only=True)
class PipelineJob:
    """A pipeline job with its physical names."""

    asset: ResolvedAsset
    spec: PipelineJobSpec

    @classmethod
    def parse(cls, rendered: str) -> "PipelineJob":
        """Return the job that `render` has rendered.

        Raises:
            TypeError: It is the text of something else.
        """
        asset = from_plain(json.loads(rendered))
        if not isinstance(asset, ResolvedAsset) or not isinstance(asset.spec, PipelineJobSpec):
            raise TypeError("not a pipeline job")
        return cls(asset=asset, spec=asset.spec)

    def render(self) -> str:
        """Return the job as a text, for another process."""
        return json.dumps(to_plain(self.asset))

    @property
    def stream(self) -> PipelineInput:
        """The dataset whose rows drive the pipeline."""
        return self.spec.inputs[0]

    @property
    def input_topic(self) -> str:
        """The log of the stream side."""
        return self.asset.need(f"input:{self.stream.dataset}").physical_name

    @property
    def output(self) -> str:
        """The log that the pipeline writes."""
        return self.asset.need("output").physical_name

    @property
    def quarantine(self) -> str | None:
        """The topic of the rows on which a step fails; None if the job has none."""
        names = [need.physical_name for need in self.asset.needs if need.role == "quarantine"]
        return names[0] if names else None


@attrs.frozen(kw_only=True)
class _Step:
    """The rows after a step: a frame with typed columns `c_<name>`, and which rows pass.

    Attributes:
        fixed: Keys and the event time, which `select` always keeps.
        group: The columns that identify the rows of a `latest`.
    """

    rows: DataFrame
    types: Mapping[str, DataType]
    fixed: frozenset[str]
    group: tuple[str, ...] | None = None


def start_pipeline(
    session: SparkSession, job: PipelineJob, *, settings: Settings, run: JobRun
) -> StreamingQuery:
    """Start a pipeline of expressions only.

    Raises:
        NotRenderedError: It has other steps, or Spark has no exact expression for a part of it.
    """
    broker = platform_broker(settings)
    records = read_topics(session, broker, [job.input_topic], run=run)
    return write_records(pipeline_records(records, job), broker, run=run)


def pipeline_records(records: DataFrame, job: PipelineJob) -> DataFrame:
    """Turn records of the stream side's log into records of the pipeline's log."""
    facts = read_facts(records, job.stream.log)
    step = _steps(job.spec.operators, _begin(facts, job.stream))
    correctable = is_correctable(job.stream)
    emitted = sf.lit(True) if correctable else sf.col(ALIVE)
    rows = step.rows.observe(
        COUNTS,
        sf.count(sf.lit(1)).alias("rows"),
        sf.count_if(~sf.col(ALIVE)).alias("dead"),
        sf.max(EVENT_TIME).alias("newest"),
    ).where(emitted)
    fact = _fact(step, job.spec.log, correctable=correctable)
    key, value = fact_record(fact, job.spec.log)
    return rows.select(sf.lit(job.output).alias("topic"), key.alias("key"), value.alias("value"))


def is_correctable(stream: PipelineInput) -> bool:
    """Whether a row of the stream side may arrive again, changed."""
    return stream.correctable or stream.log.shape is not LogShape.ROWS


def _begin(facts: DataFrame, stream: PipelineInput) -> _Step:
    columns = public_columns(stream.log)
    types = {name: of for name, of in stream.schema.columns.items() if name in columns}
    rows = facts.select(
        ROW_ID,
        VERSION,
        EVENT_TIME,
        ALIVE,
        *(columns[name].alias(f"c_{name}") for name in types),
    )
    fixed = {column.name for column in stream.log.keys} | {stream.log.time_field}
    return _Step(rows=rows, types=types, fixed=frozenset(fixed))


def _steps(operator: Operator, begin: _Step) -> _Step:
    match operator:
        case DatasetRef():
            return begin
        case Join():
            raise NotRenderedError(f"join `{operator.right.dataset}`")
        case AssignCode() | Filter(predicate=UserCode()):
            raise NotRenderedError("Python in the pipeline")
        case Aggregate():
            return _steps(operator.input, begin)
        case _:
            return _step(operator, _steps(operator.input, begin))


def _step(operator: Operator, given: _Step) -> _Step:
    match operator:
        case Filter():
            return _filter(operator, given)
        case Assign():
            return _assign(operator, given)
        case DropNull(columns=columns):
            return _drop_null(columns, given)
        case Select(columns=columns):
            chosen = given.fixed | set(columns)
            return _named(given, {name: name for name in given.types if name in chosen})
        case Drop(columns=columns):
            return _named(given, {n: n for n in given.types if n not in set(columns)})
        case Rename(names=names):
            renamed = dict(names)
            return _named(given, {renamed.get(name, name): name for name in given.types})
        case Latest(by=by):
            return attrs.evolve(given, group=by)
        case _:
            raise NotRenderedError(type(operator).__name__)


def _scope(given: _Step) -> Scope:
    columns = {name: sf.col(f"`c_{name}`") for name in given.types}
    return Scope(types=given.types, columns=columns, now=sf.col(EVENT_TIME))


def _keep(given: _Step, holds: SparkColumn) -> _Step:
    alive = sf.col(ALIVE) & sf.coalesce(holds, sf.lit(False))
    return attrs.evolve(given, rows=given.rows.withColumn(ALIVE, alive))


def _filter(operator: Filter, given: _Step) -> _Step:
    if isinstance(operator.predicate, UserCode):
        raise NotRenderedError("Python in the pipeline")
    return _keep(given, render(operator.predicate, _scope(given)))


def _assign(operator: Assign, given: _Step) -> _Step:
    scope = _scope(given)
    added: dict[str, SparkColumn] = {}
    types = dict(given.types)
    present = sf.lit(True)
    for assignment in operator.assignments:
        fitted = fit(assignment.expression, given.types, target=assignment.type)
        added[f"c_{assignment.column}"] = render(fitted, scope)
        types[assignment.column] = assignment.type
        if not isinstance(assignment.type, Optional):
            present = present & sf.col(f"`c_{assignment.column}`").isNotNull()
    rows = given.rows.withColumns(added)
    # A row whose expression has no value in a required column does not exist.
    return _keep(attrs.evolve(given, rows=rows, types=types), present)


def _drop_null(columns: tuple[str, ...], given: _Step) -> _Step:
    holds = sf.lit(True)
    for name in columns:
        holds = holds & sf.col(f"`c_{name}`").isNotNull()
    types = {name: inner(of) if name in set(columns) else of for name, of in given.types.items()}
    return _keep(attrs.evolve(given, types=types), holds)


def _named(given: _Step, sources: Mapping[str, str]) -> _Step:
    """Keep the named columns, each under its new name."""
    rows = given.rows.select(
        ROW_ID,
        VERSION,
        EVENT_TIME,
        ALIVE,
        *(sf.col(f"`c_{old}`").alias(f"c_{new}") for new, old in sources.items()),
    )
    types = {new: given.types[old] for new, old in sources.items()}
    fixed = frozenset(new for new, old in sources.items() if old in given.fixed)
    return attrs.evolve(given, rows=rows, types=types, fixed=fixed)


def _fact(step: _Step, log: LogSpec, *, correctable: bool) -> SparkFactColumns:
    columns = {name: sf.col(f"`c_{name}`") for name in step.types}
    row_id, version = sf.col(ROW_ID), sf.col(VERSION)
    alive = sf.col(ALIVE)
    for column in log.keys:
        alive = alive & columns[column.name].isNotNull()
    if step.group is not None:
        cells = [columns[column.name] for column in log.keys]
        # Among rows with the same instant the last one wins: identities sort in source order.
        version = sf.concat(row_id, version) if correctable else row_id
        row_id = keyed_row_id(key_bytes(log.keys, cells), sf.col(EVENT_TIME))
    return SparkFactColumns(
        row_id=row_id,
        version=version,
        event_time=sf.col(EVENT_TIME),
        alive=alive,
        columns=columns,
    )
