"""What an author declares, as frozen values with their origin."""

import enum
from typing import TypeAlias

import attrs

from narthex._base.origin import NOWHERE, Origin
from narthex._base.records import DESCRIPTION, LATER, record
from narthex._ir.code import UserCode
from narthex._ir.connections import (
    AwsSecretRef,
    BigQueryDataset,
    Connector,
    Credential,
    Csv,
    Database,
    Encoding,
    FileFormat,
    Files,
    HttpPath,
    JsonLines,
    KafkaTopic,
    KinesisStream,
    MongoDatabase,
    Parquet,
    PubSubTopic,
    RedshiftDatabase,
    RegistryFormat,
    SecretRef,
    SinkTarget,
    SnowflakeDatabase,
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
    "AliasExtractor",
    "AwsSecretRef",
    "BigQueryDataset",
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
    "HttpPath",
    "Index",
    "JsonLines",
    "KafkaTopic",
    "KinesisStream",
    "LookupExtractor",
    "MongoDatabase",
    "Parquet",
    "Pipeline",
    "Preproc",
    "PubSubTopic",
    "RedshiftDatabase",
    "RegistryFormat",
    "Sample",
    "SecretRef",
    "Sink",
    "SinkTarget",
    "Snapshots",
    "SnowflakeDatabase",
    "Source",
    "SqlDatabase",
    "Table",
    "TableFormat",
    "WebhookEndpoint",
    "Where",
    "WhereByCode",
]


@record
class Cdc(enum.Enum):
    """How rows of a source change a dataset.

    `debezium` rows are envelopes of Debezium; `native` ones are the changes that a Delta or Hudi
    table keeps itself.
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
    """The field is the raw column of this name, or what a path of members leads to in it."""

    column: str
    path: tuple[str, ...] = attrs.field(default=(), metadata=LATER)


@record
@attrs.frozen
class Computed:
    """The field is an expression of raw columns, whose types `schema` gives."""

    expression: ExprNode
    schema: tuple[Column, ...]


@record
@attrs.frozen
class ComputedByCode:
    """The field is what a Python function of a frame gives.

    Attributes:
        required: Columns of the frame that must be right, for the row to be taken.
        offered: Further columns of the frame; null where a row has nothing that fits.
    """

    code: UserCode
    required: tuple[Column, ...] = ()
    offered: tuple[Column, ...] = ()


Preproc: TypeAlias = Constant | ColumnRef | Computed | ComputedByCode


@record
@attrs.frozen
class Where:
    """Rows for which it is false or null are counted and left out."""

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
    """A share of the rows, the same ones each time: a row is drawn by the hash of some fields.

    Attributes:
        rate: 0 to 1.
        using: The fields; rows that are equal in them are all taken or none is.
    """

    rate: float
    using: tuple[str, ...]


@record
@attrs.frozen(kw_only=True)
class Source:
    """Where rows of a dataset enter."""

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
    """A sink that writes the whole dataset each time, and keeps the newest few."""

    marker: str
    num_retain: int


@record
@attrs.frozen(kw_only=True)
class Sink:
    """Where rows of a dataset are written to.

    Attributes:
        how: `incremental` writes what changed, `recreate` the whole dataset each time.
        renames: Pairs of a field and the name that it has on the other side.
    """

    target: SinkTarget
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


@record
@attrs.frozen(kw_only=True)
class Expectation:
    """A expectation about rows: a Great Expectations type with its keyword arguments."""

    kind: str
    arguments: tuple[tuple[str, LiteralValue], ...]
    mostly: float | None = None


@record
@attrs.frozen
class Carried:
    """The log of an earlier version of a dataset, which a later one goes on with.

    Attributes:
        contributions: The fingerprint of what that log holds. The log counts only for a version
            whose log would hold the same.
        data: The fingerprint that the assets of the log have.
    """

    contributions: bytes
    data: bytes


@record
@attrs.frozen(kw_only=True)
class Dataset:
    """A named, typed log of rows with one event-time field.

    Attributes:
        carried: What `narthex._compiler.log_reuse.carry_on` found in the commit before; no author
            says it.
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


@record
@attrs.frozen(kw_only=True)
class Feature:
    """A named read-time value of a featureset."""

    name: str
    type: DataType
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class LookupExtractor:
    """The feature is a column of a dataset, looked up by features named as its keys.

    Attributes:
        is_list: The keys and the feature are lists: element by element, a lookup each.
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
        default: Stands in where the other feature is null, if `has_default`.
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
    """A named group of features with what extracts them."""

    name: str
    features: tuple[Feature, ...]
    extractors: tuple[Extractor, ...]
    metadata: Metadata = attrs.field(default=Metadata(), metadata=DESCRIPTION)
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class Definitions:
    """All entities of one commit."""

    datasets: tuple[Dataset, ...]
    featuresets: tuple[Featureset, ...]
