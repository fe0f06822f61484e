"""The engine-free description of what a commit needs: assets, each with its fingerprint.

An asset's spec says everything an engine must know except physical names: those are given when
the ledger reserves it, and reach the engine as `ResolvedAsset`.
"""

import enum
from typing import Final, NewType, TypeAlias

import attrs

from narthex._base.records import DESCRIPTION, LATER, record
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.entities import Expectation, Sink, Source
from narthex._ir.operators import Aggregate, Operator
from narthex._ir.schema import Column, Schema
from narthex._ir.types import Datetime, Optional

Fingerprint = NewType("Fingerprint", bytes)
"""32 bytes: the SHA-256 of what an asset means."""

FP_VERSION = 1
"""The version of the encoding that fingerprints hash."""


@record
class AssetKind(enum.Enum):
    """The kinds of physical things that a commit can create."""

    KAFKA_TOPIC = "kafka_topic"
    INDEX = "index"
    HISTORY = "history"
    CHECKPOINT = "checkpoint"
    STREAM_JOB = "stream_job"
    INDEX_FEED = "index_feed"
    HISTORY_FEED = "history_feed"
    SINK_FENCE = "sink_fence"


@record
class TopicRole(enum.Enum):
    """What a topic carries."""

    INGEST = "ingest"
    DATASET = "dataset"
    QUARANTINE = "quarantine"
    INVALIDATION = "touched"


@record
class LogShape(enum.Enum):
    """How the facts of a log make a state.

    ROWS: keyless; every row_id stands for itself.
    KEYED: row_id is (key, event_time); a lookup is the floor at the instant.
    CONTRIBUTIONS: the inputs of aggregates by group key; values exist only when read. A fact's
        event time is the place of its row on the time axis: its event time, or the cell of the
        column that the aggregate goes along.
    """

    ROWS = "rows"
    KEYED = "keyed"
    CONTRIBUTIONS = "contributions"


VALIDITY_COLUMNS: Final = (Column("__since", Datetime()), Column("__until", Optional(Datetime())))
"""The last two columns of contributions of keyed rows; no author can name a column so."""


@record
@attrs.frozen
class Decay:
    """A value column that decays by itself: halved whenever a half-life has passed."""

    column: str
    half_life_us: int


@record
@attrs.frozen(kw_only=True)
class LogSpec:
    """The facts of one dataset's log; `narthex._formats.avro` derives the Avro schema from it.

    A contribution of a keyless row stands from its event time on. One of a keyed row is there from
    its row's event time until its key changes: `__since` and `__until`, the end exclusive, null
    for as long as it stands. Its row_id is that of its row; a later row of the key makes it come
    again with a higher version and its `__until`.

    Attributes:
        shape: How facts make a state.
        keys: Key columns (group keys of contributions); empty for ROWS.
        values: Value columns (inputs of contributions, then `VALIDITY_COLUMNS` if they have lives).
        time_field: The public name of the event time.
        along: Of contributions with lives only: whether a column places them, so that one may
            come after a window that it belongs to has ended. Then a question at q counts those in
            its window that are there at q less the lookback; otherwise those that are there at
            the window's last instant.
        decays: Of a KEYED log: the values that have decayed since the row's event time by the
            instant at which they are looked up.
    """

    shape: LogShape
    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    time_field: str
    along: bool = attrs.field(default=False, metadata=LATER)
    decays: tuple[Decay, ...] = attrs.field(default=(), metadata=LATER)

    @property
    def lives(self) -> bool:
        """Whether contributions say from when until when they are there."""
        return self.values[-len(VALIDITY_COLUMNS) :] == VALIDITY_COLUMNS

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The value columns without `VALIDITY_COLUMNS`."""
        return self.values[: -len(VALIDITY_COLUMNS)] if self.lives else self.values


@record
@attrs.frozen(kw_only=True)
class TopicSpec:
    """A Kafka topic.

    Attributes:
        log: For DATASET topics, what the facts look like.
        retention_ms: None keeps for ever.
        identity: What distinguishes topics without a log (the endpoint of an ingest topic).
    """

    role: TopicRole
    partitions: int
    log: LogSpec | None = None
    retention_ms: int | None = None
    identity: str = ""


@record
@attrs.frozen(kw_only=True)
class IndexSpec:
    """A lookup index of one dataset log.

    Attributes:
        log: The log that it is fed from; KEYED or CONTRIBUTIONS.
        aggregates: For CONTRIBUTIONS, what is folded at read time.
        ladder_us: For CONTRIBUTIONS, tile lengths, ascending, each a multiple of the former; empty
            where they have lives, which no tile knows.
        correctable: Whether a fact may come again with a higher version and another key, place or
            life; of a KEYED log, whether a row may cease to exist (`narthex._ir.facts.NEVER`).
        by: For the left side of a join: rows are indexed by these columns instead of a key.
        layout: Version of the storage layout.
    """

    log: LogSpec
    aggregates: tuple[TypedAggregate, ...] = ()
    ladder_us: tuple[int, ...] = ()
    correctable: bool = False
    by: tuple[str, ...] = ()
    layout: int = 1


@record
@attrs.frozen(kw_only=True)
class HistorySpec:
    """The append-only table of all fact states of a dataset log."""

    log: LogSpec
    layout: int = 1


@record
@attrs.frozen(kw_only=True)
class CheckpointSpec:
    """The directory in which a job keeps what Spark needs to go on."""

    job: str


@record
class Trigger(enum.Enum):
    """How a live job runs; a backfill of any job is `availableNow`.

    Attributes:
        REAL_TIME: A Spark query in Real-time Mode: expressions only.
        STAGE: A Python stage that takes records as they come, in a process beside Spark's.
        STATEFUL: A Python stage that keeps its rows in a state of its own (docs/decisions/0013).
        MICRO_BATCH: Spark looks for something new again and again.
        BOUNDED: The backfill is all there is.
    """

    REAL_TIME = "real_time"
    STAGE = "stage"
    STATEFUL = "stateful"
    MICRO_BATCH = "micro_batch"
    BOUNDED = "bounded"


@record
@attrs.frozen(kw_only=True)
class SourceJobSpec:
    """A job that turns raw rows of one source into facts of a dataset log.

    Needs: `input` (ingest topic, webhooks only), `output` (dataset topic), `quarantine`,
    `checkpoint`.

    Attributes:
        dataset: The dataset's name, for people and metrics.
        source_id: The identity string that orders ties between sources, part of row ids.
        source: The definition.
        schema: The dataset's fields: what a raw row must become.
        log: The facts to write.
        trigger: BOUNDED sources run in a backfill only.
        reason: Why this trigger, for people.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    source_id: str
    source: Source
    schema: Schema
    log: LogSpec
    trigger: Trigger
    reason: str = attrs.field(metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class PipelineInput:
    """A dataset that a pipeline reads; `role` names the topic (and index) in the job's needs.

    Attributes:
        correctable: Whether a row may come again with a higher version, so that one that is
            filtered out must be retracted and not only left out.
        aggregate: Of a dataset whose log holds contributions: the step that makes its rows of
            them, as `narthex._runtime.steps.versions_of` applies it. Its input is the dataset.
        aggregates: The same with types, in the order of the step's specs.
    """

    dataset: str
    log: LogSpec
    schema: Schema
    correctable: bool = False
    aggregate: Aggregate | None = None
    aggregates: tuple[TypedAggregate, ...] = ()


@record
@attrs.frozen(kw_only=True)
class PipelineJobSpec:
    """A job that computes one pipeline from dataset logs into a dataset log.

    Needs: `input:<dataset>` (topic of the stream side), `right:<dataset>` (index of each joined
    dataset), `touched:<dataset>` (its corrections), `left` (index of the stream side by join
    key), `output`, `checkpoint`. With a state of its own (STATEFUL) it needs `input:<dataset>` of
    each dataset, `output` and `checkpoint`, and nothing else.

    Attributes:
        operators: The pipeline up to, not including, a final aggregate with windows of its own.
        inputs: All datasets that it reads, each once; the stream side first.
        schema: The public schema of the dataset that it makes.
        log: The facts to write; for an aggregate, the contributions.
        along: The column whose cells place contributions on the time axis instead of their event
            times; None for those.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    pipeline: str = attrs.field(metadata=DESCRIPTION)
    operators: Operator
    inputs: tuple[PipelineInput, ...]
    schema: Schema
    log: LogSpec
    trigger: Trigger
    reason: str = attrs.field(metadata=DESCRIPTION)
    along: str | None = None


@record
@attrs.frozen(kw_only=True)
class SinkJobSpec:
    """A job that writes what a dataset's rows become to where its author says.

    Needs: `input:<dataset>` (its topic), `checkpoint`.

    Attributes:
        sink: The definition.
        schema: The dataset's fields.
        log: The facts that are read.
        voidable: Whether a keyed row may cease to exist, so that what stood before it is kept.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    sink: Sink
    schema: Schema
    log: LogSpec
    voidable: bool
    trigger: Trigger
    reason: str = attrs.field(metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class FeedSpec:
    """A registry row: the writer tails `log` into `index` (or `history`).

    Needs: `log` (topic), `index` or `history`, and `touched` (topic) where joins depend on it.

    Attributes:
        disorder_us: How late a row of the dataset's sources is expected to be at most; None
            where no source fills it. It changes no result.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    log: LogSpec
    disorder_us: int | None = attrs.field(default=None, metadata=DESCRIPTION)


AssetSpec: TypeAlias = (
    TopicSpec
    | IndexSpec
    | HistorySpec
    | CheckpointSpec
    | SourceJobSpec
    | PipelineJobSpec
    | SinkJobSpec
    | FeedSpec
)


@record
@attrs.frozen
class AssetRef:
    """An asset by what it means."""

    kind: AssetKind
    fingerprint: bytes


@record
@attrs.frozen
class Need:
    """An asset that another one needs, and what for."""

    role: str
    asset: AssetRef


@record
@attrs.frozen(kw_only=True)
class AssetBlueprint:
    """One asset that a commit needs.

    Attributes:
        paths: The logical names that bind to it in the manifest, such as `dataset/Orders/log`.
        label: A short name for people; two assets may share it.
    """

    kind: AssetKind
    fp_version: int
    fingerprint: bytes
    spec: AssetSpec
    needs: tuple[Need, ...]
    paths: tuple[str, ...]
    label: str

    @property
    def ref(self) -> AssetRef:
        """What other assets need it by."""
        return AssetRef(self.kind, self.fingerprint)


@record
@attrs.frozen(kw_only=True)
class DatasetPlan:
    """How one dataset of a manifest is stored and read.

    Attributes:
        aggregates: Empty unless the dataset ends in an aggregate.
        ladder_us: The tile lengths of the aggregates.
        correctable: As `IndexSpec` has it: whether a row may leave the key or the place it had.
        online: Whether a lookup as of now is allowed; `offline`: as of any instant.
    """

    name: str
    version: int
    schema: Schema
    log: LogSpec
    aggregates: tuple[TypedAggregate, ...]
    ladder_us: tuple[int, ...]
    online: bool
    offline: bool
    expectations: tuple[Expectation, ...] = ()
    correctable: bool = attrs.field(default=False, metadata=LATER)

    @property
    def index(self) -> IndexSpec:
        """How an index of the dataset is laid out."""
        return IndexSpec(
            log=self.log,
            aggregates=self.aggregates,
            ladder_us=self.ladder_us,
            correctable=self.correctable,
        )


@record
@attrs.frozen(kw_only=True)
class Blueprint:
    """All assets of a commit, in dependency order, and how its datasets are read."""

    assets: tuple[AssetBlueprint, ...]
    datasets: tuple[DatasetPlan, ...]


@record
@attrs.frozen(kw_only=True)
class ResolvedNeed:
    """A need with the physical name behind it, and its spec (an index's layout, a topic's log)."""

    role: str
    kind: AssetKind
    asset_id: int
    physical_name: str
    spec: AssetSpec


@record
@attrs.frozen(kw_only=True)
class ResolvedAsset:
    """An asset with its physical name and those of what it needs: all an engine must know."""

    asset_id: int
    kind: AssetKind
    physical_name: str
    fingerprint: bytes
    spec: AssetSpec
    needs: tuple[ResolvedNeed, ...]

    def need(self, role: str) -> ResolvedNeed:
        """Return the need of that role.

        Raises:
            KeyError: The asset has no such need.
        """
        for need in self.needs:
            if need.role == role:
                return need
        raise KeyError(role)
