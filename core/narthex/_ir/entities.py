"""The entities that an author declares, as frozen values with their origin."""

import enum
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, LATER, record
from narthex._ir.code import UserCode
from narthex._ir.connections import (
    AwsSecretRef,
    Connector,
    Credential,
    Csv,
    Database,
    Encoding,
    FileFormat,
    Files,
    JsonLines,
    KafkaTopic,
    Parquet,
    RegistryFormat,
    SecretRef,
    SqlDatabase,
    Table,
    TableFormat,
    WebhookEndpoint,
)
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.expression_nodes import Node as ExprNode
from narthex._ir.operators import Operator
from narthex._ir.schema import Column, Metadata, Schema
from narthex._ir.types import DataType

__all__ = [
    "Action",
    "AliasExtractor",
    "AwsSecretRef",
    "Cdc",
    "CodeExtractor",
    "ColumnRef",
    "Computed",
    "ComputedByCode",
    "Connector",
    "Constant",
    "Credential",
    "Csv",
    "Database",
    "Dataset",
    "Definitions",
    "Encoding",
    "Expectation",
    "ExpressionExtractor",
    "Extractor",
    "Feature",
    "Featureset",
    "FileFormat",
    "Files",
    "Index",
    "JsonLines",
    "KafkaTopic",
    "LookupExtractor",
    "Parquet",
    "Pipeline",
    "Preproc",
    "RegistryFormat",
    "Sample",
    "SecretRef",
    "Severity",
    "Sink",
    "Snapshots",
    "Source",
    "SqlDatabase",
    "Table",
    "TableFormat",
    "WebhookEndpoint",
    "Where",
    "WhereByCode",
    "is_quarantined",
]

FIRST_PARTITIONS: Final = 2
"""The number of partitions of every log that was created before authors could choose it."""


@record
class Cdc(enum.Enum):
    """How rows of a source change a dataset.

    `debezium` rows are Debezium envelopes; `native` rows are the changes that a Delta or Hudi table
    records itself.
    """

    APPEND = "append"
    UPSERT = "upsert"
    DEBEZIUM = "debezium"
    NATIVE = "native"


@record
@attrs.frozen
class Constant:
    """The field is this value in every row."""

    value: LiteralValue


@record
@attrs.frozen
class ColumnRef:
    """The field is the raw column of this name, or the member of it at a path."""

    column: str
    path: tuple[str, ...] = attrs.field(default=(), metadata=LATER)


@record
@attrs.frozen
class Computed:
    """The field is an expression over raw columns, whose types `schema` holds."""

    expression: ExprNode
    schema: tuple[Column, ...]


@record
@attrs.frozen
class ComputedByCode:
    """The field is the result of a Python function of a frame.

    Attributes:
        required: Columns of the frame that must be valid; otherwise the row is refused.
        offered: Further columns of the frame; null where a row has no valid value.
    """

    code: UserCode
    required: tuple[Column, ...] = ()
    offered: tuple[Column, ...] = ()


Preproc: TypeAlias = Constant | ColumnRef | Computed | ComputedByCode


@record
@attrs.frozen
class Where:
    """A predicate; rows for which it is false or null are counted and filtered out."""

    expression: ExprNode
    schema: tuple[Column, ...]


@record
@attrs.frozen
class WhereByCode:
    """As `Where`, by a Python function of a frame; its columns are those of `ComputedByCode`."""

    code: UserCode
    required: tuple[Column, ...] = ()
    offered: tuple[Column, ...] = ()


@record
@attrs.frozen
class Sample:
    """A share of the rows, reproducible: the hash of some fields selects a row.

    Attributes:
        rate: 0 to 1.
        using: The fields; of rows that are equal in them, either all are selected or none.
    """

    rate: float
    using: tuple[str, ...]


@record
@attrs.frozen(kw_only=True)
class Source:
    """A source of a dataset's rows."""

    connector: Connector
    disorder_us: int
    cdc: Cdc
    every_us: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    bounded: bool = False
    idleness_us: int | None = None
    preproc: tuple[tuple[str, Preproc], ...] = ()
    where: Where | WhereByCode | None = None
    env: tuple[str, ...] = ()
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    sample: Sample | None = attrs.field(default=None, metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class Snapshots:
    """A sink that writes the whole dataset each time, and retains the newest few snapshots."""

    marker: str
    num_retain: int


@record
@attrs.frozen(kw_only=True)
class Sink:
    """A destination of a dataset's rows.

    Attributes:
        how: `incremental` writes the changes, `recreate` the whole dataset each time.
        renames: Pairs of a field and its name at the destination.
    """

    target: Connector
    cdc: Cdc | None = None
    every_us: int | None = None
    how: str | Snapshots | None = None
    renames: tuple[tuple[str, str], ...] = ()
    since_us: int | None = None
    until_us: int | None = None
    env: tuple[str, ...] = ()
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class Index:
    """How a keyed dataset can be looked up."""

    online: bool
    offline: bool


@record
@attrs.frozen(kw_only=True)
class Pipeline:
    """A function from datasets to one dataset."""

    name: str
    inputs: tuple[str, ...]
    terminal: Operator
    env: tuple[str, ...] = ()
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


COLUMN_ARGUMENTS: Final = ("column", "column_A", "column_B", "column_list")
"""The arguments that name the columns of an expectation."""


@record
class Severity(enum.Enum):
    """The consequence of rows that break an expectation.

    CRITICAL: they fail an audit, and readers do not flip to a commit whose history has them.
    WARNING: they are reported.
    """

    CRITICAL = "critical"
    WARNING = "warning"


@record
class Action(enum.Enum):
    """The treatment of a row that breaks an expectation.

    WARN: nothing; the row is in the dataset.
    QUARANTINE: the row is not in the dataset, but in its quarantine.
    DROP: the row is not in the dataset; it is counted.
    """

    WARN = "warn"
    QUARANTINE = "quarantine"
    DROP = "drop"


@record
@attrs.frozen(kw_only=True)
class Expectation:
    """An expectation about rows: a Great Expectations type with its keyword arguments."""

    kind: str
    arguments: tuple[tuple[str, LiteralValue], ...]
    mostly: float | None = None
    severity: Severity = attrs.field(default=Severity.WARNING, metadata=LATER)
    action: Action = attrs.field(default=Action.WARN, metadata=LATER)

    @property
    def title(self) -> str:
        """Its columns, name and arguments for people, without `mostly`."""
        columns: list[str] = []
        others: list[str] = []
        for name, value in self.arguments:
            if name in COLUMN_ARGUMENTS:
                columns += map(str, value) if isinstance(value, tuple) else [str(value)]
            else:
                others.append(f"{name}={value!r}")
        return f"{', '.join(columns)}: {self.kind}({', '.join(others)})"


def is_quarantined(broken: Iterable[Expectation]) -> bool:
    """Whether a row that breaks these expectations goes to the quarantine.

    It does if one of them sends rows there, even if another one drops rows.
    """
    return any(one.action is Action.QUARANTINE for one in broken)


@record
@attrs.frozen
class Carried:
    """The log of a dataset that ends in an aggregate, as it was compiled.

    It is the dataset's own, or that of an earlier version.

    Attributes:
        contributions: The fingerprint of the log's content. Only a version whose log would have
            the same content can reuse it.
        data: The fingerprint of the log's assets.
    """

    contributions: bytes
    data: bytes


@record
@attrs.frozen(kw_only=True)
class Dataset:
    """A named, typed log of rows with one event-time field.

    Attributes:
        carried: The log that `narthex._compiler.log_reuse.reuse_logs` recorded when the commit was
            compiled; authors do not set it.
        partitions: How many partitions the log has; None until a commit decides it
            (`narthex._compiler.partitions`), and in definitions deployed before the field existed.
    """

    name: str
    version: int
    schema: Schema
    history_us: int | None = None
    index: Index | None = None
    sources: tuple[Source, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    sinks: tuple[Sink, ...] = ()
    carried: Carried | None = attrs.field(default=None, metadata=LATER)
    partitions: int | None = attrs.field(default=None, metadata=LATER)

    @property
    def enforced(self) -> tuple[Expectation, ...]:
        """The expectations on which jobs act, row by row."""
        return tuple(one for one in self.expectations if one.action is not Action.WARN)

    @property
    def log_partitions(self) -> int:
        """How many partitions the log has."""
        return FIRST_PARTITIONS if self.partitions is None else self.partitions


@record
@attrs.frozen(kw_only=True)
class Feature:
    """A named value of a featureset, computed when it is read."""

    name: str
    type: DataType
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class LookupExtractor:
    """The feature is a column of a dataset, looked up by features that have the names of its keys.

    Attributes:
        is_list: The keys and the feature are lists, with one lookup per element.
    """

    feature: str
    dataset: str
    column: str
    default: LiteralValue = None
    has_default: bool = False
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    is_list: bool = attrs.field(default=False, metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class AliasExtractor:
    """The feature is another featureset's feature, `Featureset.feature`.

    Attributes:
        default: Replaces a null of the other feature, if `has_default`.
    """

    feature: str
    source: str
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    default: LiteralValue = attrs.field(default=None, metadata=LATER)
    has_default: bool = attrs.field(default=False, metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class ExpressionExtractor:
    """The feature is an expression over features of its own featureset."""

    feature: str
    expression: ExprNode
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class CodeExtractor:
    """Features computed by a Python function of instants and input columns.

    Attributes:
        inputs: Fully qualified, `Featureset.feature`.
        outputs: Names in its own featureset.
        datasets: The datasets that it may look up.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    code: UserCode
    datasets: tuple[str, ...] = ()
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


Extractor: TypeAlias = LookupExtractor | AliasExtractor | ExpressionExtractor | CodeExtractor


@record
@attrs.frozen(kw_only=True)
class Featureset:
    """A named group of features with the extractors that compute them.

    Attributes:
        expectations: What logged answers are audited for; the columns are features.
    """

    name: str
    features: tuple[Feature, ...]
    extractors: tuple[Extractor, ...]
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)
    expectations: tuple[Expectation, ...] = attrs.field(default=(), metadata=LATER)

    @property
    def columns(self) -> dict[str, DataType]:
        """The types of its features, by name."""
        return {feature.name: feature.type for feature in self.features}


@record
@attrs.frozen(kw_only=True)
class Definitions:
    """All entities of one commit."""

    datasets: tuple[Dataset, ...]
    featuresets: tuple[Featureset, ...]
