"""The engine-free description of a commit's needs: assets, each with its fingerprint.

An asset's spec holds all that an engine needs except physical names: the ledger assigns those when
it reserves the asset, and they reach the engine in a `ResolvedAsset`.
"""

import enum
from typing import Final, NewType, TypeAlias

import attrs

from narthex._base.records import DESCRIPTION, LATER, record
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.entities import Expectation, Sink, Source
from narthex._ir.facts import TOMBSTONE_TIME, Fact
from narthex._ir.operators import Aggregate, Operator
from narthex._ir.schema import Column, Schema
from narthex._ir.types import Datetime, Optional
from narthex._ir.window_spans import oldest_visible

Fingerprint = NewType("Fingerprint", bytes)
"""32 bytes: the SHA-256 of an asset's meaning."""

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
    """The content of a topic."""

    INGEST = "ingest"
    DATASET = "dataset"
    QUARANTINE = "quarantine"
    INVALIDATION = "touched"


@record
class LogShape(enum.Enum):
    """The rule by which the facts of a log make a state.

    ROWS: keyless; each row_id is a row of its own.
    KEYED: row_id is (key, event_time); a lookup is the floor at the instant.
    CONTRIBUTIONS: the inputs of aggregates by group key; values exist only when read. A fact's
        event time is the place of its row on the time axis: its event time, or the cell of the
        column that the aggregate uses as its time axis (`along`).
    """

    ROWS = "rows"
    KEYED = "keyed"
    CONTRIBUTIONS = "contributions"


VALIDITY_COLUMNS: Final = (Column("__since", Datetime()), Column("__until", Optional(Datetime())))
"""The last two columns of contributions of keyed rows; authors cannot use these names."""


@record
@attrs.frozen
class Decay:
    """A value column that decays by itself: it halves once per half-life."""

    column: str
    half_life_us: int


@record
@attrs.frozen(kw_only=True)
class LogSpec:
    """The facts of one dataset's log; `narthex._formats.avro` derives the Avro schema from it.

    A contribution of a keyless row counts from its event time on. A contribution of a keyed row
    counts from the row's event time until its key changes: from `__since` to `__until`, the end
    exclusive, null while the row is current. Its row_id is that of its row; when a later row of
    the key arrives, it is written again with a higher version and its `__until`.

    Attributes:
        shape: How facts make a state.
        keys: Key columns (group keys of contributions); empty for ROWS.
        values: Value columns (inputs of contributions, then `VALIDITY_COLUMNS` if they have
            validity intervals).
        time_field: The public name of the event time.
        along: Only for contributions with validity intervals: whether a column places them on the
            time axis, so that one may arrive after its window has ended. A query at q then counts
            the contributions in its window that are valid at q less the lookback; otherwise it
            counts those that are valid at the window's last instant.
        decays: For a KEYED log: the values that, at the instant of a lookup, have decayed since
            the row's event time.
    """

    shape: LogShape
    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    time_field: str
    along: bool = attrs.field(default=False, metadata=LATER)
    decays: tuple[Decay, ...] = attrs.field(default=(), metadata=LATER)

    @property
    def lives(self) -> bool:
        """Whether contributions have validity intervals (`VALIDITY_COLUMNS`)."""
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
        log: For DATASET topics, the shape and columns of the facts.
        retention_ms: None keeps records for ever.
        identity: Distinguishes topics without a log (the endpoint of an ingest topic).
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
        log: The log that feeds the index; KEYED or CONTRIBUTIONS.
        aggregates: For CONTRIBUTIONS, the aggregates that are computed at read time.
        ladder_us: For CONTRIBUTIONS, tile lengths, ascending, each a multiple of the previous one;
            empty for contributions with validity intervals, which tiles cannot represent.
        correctable: Whether a fact may arrive again with a higher version and another key, place or
            validity interval; for a KEYED log, whether a row may be deleted
            (`narthex._ir.facts.TOMBSTONE_TIME`).
        by: For the left side of a join: the columns that index the rows instead of a key.
        layout: The version of the storage layout.
        shards: How many parts the index is divided into by the partitions of its log; with 1, it
            contains all of them (`narthex._ir.shards`).
        history_us: How far a lookup looks back from its instant, or from the watermark if that is
            earlier (`oldest_visible`); None is for ever.
        disorder_us: The distance between the newest row and the watermark; 0 without a history.
        expires: Whether rows that no lookup may see any more are deleted. Then lookups as of
            instants long before the newest row are refused.
        parts_us: The lengths of the parts of a finest tile with many rows, descending; each is a
            multiple of the next, and the last is 1. Empty if tiles are not divided.
        divided_above: A finest tile, or a part, with more rows is divided into parts.
    """

    log: LogSpec
    aggregates: tuple[TypedAggregate, ...] = ()
    ladder_us: tuple[int, ...] = ()
    correctable: bool = False
    by: tuple[str, ...] = ()
    layout: int = 1
    shards: int = attrs.field(default=1, metadata=LATER)
    history_us: int | None = attrs.field(default=None, metadata=LATER)
    disorder_us: int = attrs.field(default=0, metadata=LATER)
    expires: bool = attrs.field(default=False, metadata=LATER)
    parts_us: tuple[int, ...] = attrs.field(default=(), metadata=LATER)
    divided_above: int = attrs.field(default=0, metadata=LATER)

    def level_of_parts(self, depth: int) -> int:
        """Return the level of finest tiles (depth 0), or of the parts at a depth inside them."""
        return depth and len(self.ladder_us) + depth - 1

    @property
    def tile_lengths_us(self) -> tuple[int, ...]:
        """The lengths of tiles by level: those of the ladder, then those of parts."""
        return (*self.ladder_us, *self.parts_us)

    def oldest_visible(self, as_of: int, newest: int | None) -> int:
        """Return the event time before which a lookup as of an instant sees no row.

        Args:
            as_of: The instant.
            newest: The greatest event time of the dataset's rows; None without rows.
        """
        watermark = None if newest is None else newest - self.disorder_us
        return oldest_visible(self.history_us, as_of, watermark)


@record
@attrs.frozen(kw_only=True)
class HistorySpec:
    """The append-only table of all fact states of a dataset log."""

    log: LogSpec
    layout: int = 1


@record
@attrs.frozen(kw_only=True)
class CheckpointSpec:
    """The directory in which a job keeps the state from which Spark resumes."""

    job: str


@record
class Trigger(enum.Enum):
    """How a live job runs; a backfill of any job is `availableNow`.

    Attributes:
        REAL_TIME: A Spark query in Real-time Mode: expressions only.
        STAGE: A Python stage that handles records as they arrive, in a standing task of Spark.
        STATEFUL: A Python stage that keeps its rows in a state of its own (docs/decisions/0013).
        MICRO_BATCH: Spark polls for new rows.
        BOUNDED: The job only runs as a backfill.
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
        schema: The dataset's fields, to which a raw row is converted.
        log: The shape and columns of the facts that the job writes.
        trigger: BOUNDED sources run in a backfill only.
        reason: The reason for the trigger, for people.
        enforced: The expectations that each row must meet.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    source_id: str
    source: Source
    schema: Schema
    log: LogSpec
    trigger: Trigger
    reason: str = attrs.field(metadata=DESCRIPTION)
    enforced: tuple[Expectation, ...] = attrs.field(default=(), metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class PipelineInput:
    """A dataset that a pipeline reads; `role` names the topic (and index) in the job's needs.

    Attributes:
        correctable: Whether a row may arrive again with a higher version, so that a row that is
            filtered out must be retracted, not only omitted.
        aggregate: For a dataset whose log holds contributions: the step that turns them into rows,
            as `narthex._runtime.steps.versions_of` applies it. Its input is the dataset.
        aggregates: The aggregates of that step with types, in the order of its specs.
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
    key), `output`, `checkpoint`, and `quarantine` (topic) if a step may fail on a row, or if an
    expectation sends rows there. With a state of its own (STATEFUL) it needs `input:<dataset>` of
    each dataset, `output`, `checkpoint` and `quarantine`, and nothing else.

    Attributes:
        operators: The pipeline up to, not including, a final aggregate with windows of its own.
        inputs: All datasets that the pipeline reads, each once; the stream side first.
        schema: The public schema of the dataset that the pipeline produces.
        log: The shape and columns of the facts that the job writes; for an aggregate, the
            contributions.
        along: The column whose cells place contributions on the time axis; None to use their event
            times.
        enforced: The expectations that each row of the result must meet.
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
    enforced: tuple[Expectation, ...] = attrs.field(default=(), metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class SinkJobSpec:
    """A job that writes a dataset's changes to the destination that its author declares.

    Needs: `input:<dataset>` (its topic), `checkpoint`.

    Attributes:
        sink: The definition.
        schema: The dataset's fields.
        log: The shape and columns of the facts that the job reads.
        voidable: Whether a keyed row may be deleted, so that the job keeps the row before it.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    sink: Sink
    schema: Schema
    log: LogSpec
    voidable: bool
    trigger: Trigger
    reason: str = attrs.field(metadata=DESCRIPTION)

    def takes(self, fact: Fact) -> bool:
        """Return whether a fact is of the span of the sink; one that deletes a row always is."""
        since, until = self.sink.since_us, self.sink.until_us
        return fact.event_time == TOMBSTONE_TIME or (
            (since is None or fact.event_time >= since)
            and (until is None or fact.event_time < until)
        )


@record
@attrs.frozen(kw_only=True)
class FeedSpec:
    """A registry row: the writer tails `log` into `index` (or `history`).

    Needs: `log` (topic), `index` or `history`, and `touched` (topic) where joins depend on it.

    Attributes:
        disorder_us: The greatest expected lateness of a row from the dataset's sources; None
            for a dataset without a source. It does not change results.
        disorders: That of each source, by its id; empty for assets of earlier versions.
    """

    dataset: str = attrs.field(metadata=DESCRIPTION)
    log: LogSpec
    disorder_us: int | None = attrs.field(default=None, metadata=DESCRIPTION)
    disorders: tuple[tuple[str, int], ...] = attrs.field(default=(), metadata=DESCRIPTION)


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
    """A reference to an asset by its kind and fingerprint."""

    kind: AssetKind
    fingerprint: bytes


@record
@attrs.frozen
class Need:
    """An asset that another one needs, and the role in which it is needed."""

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
        """The reference by which other assets need this one."""
        return AssetRef(self.kind, self.fingerprint)


@record
@attrs.frozen(kw_only=True)
class DatasetPlan:
    """How one dataset of a manifest is stored and read.

    Attributes:
        aggregates: Empty unless the dataset ends in an aggregate.
        ladder_us: The tile lengths of the aggregates.
        correctable: As in `IndexSpec`: whether a row may change its key or its place.
        online: Whether a lookup as of now is allowed; `offline`: as of any instant.
        history_us: As in `IndexSpec`: how far a lookup looks back.
        disorder_us: As in `IndexSpec`: how far the watermark is behind the newest row.
        expires: As in `IndexSpec`: whether the index deletes rows that no lookup may see.
        parts_us: As in `IndexSpec`: the lengths of the parts of a finest tile.
        divided_above: As in `IndexSpec`: how many rows an undivided tile may have.
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
    history_us: int | None = attrs.field(default=None, metadata=LATER)
    disorder_us: int = attrs.field(default=0, metadata=LATER)
    expires: bool = attrs.field(default=False, metadata=LATER)
    parts_us: tuple[int, ...] = attrs.field(default=(), metadata=LATER)
    divided_above: int = attrs.field(default=0, metadata=LATER)

    @property
    def index(self) -> IndexSpec:
        """The spec of an index of the dataset."""
        return IndexSpec(
            log=self.log,
            aggregates=self.aggregates,
            ladder_us=self.ladder_us,
            correctable=self.correctable,
            history_us=self.history_us,
            disorder_us=self.disorder_us,
            expires=self.expires,
            parts_us=self.parts_us,
            divided_above=self.divided_above,
        )


@record
@attrs.frozen(kw_only=True)
class Blueprint:
    """All assets of a commit, in dependency order, and the plans by which its datasets are read."""

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
    """An asset with its physical name and those of its needs: all that an engine needs."""

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
