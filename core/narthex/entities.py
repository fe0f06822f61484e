"""What an author declares, as frozen values with their origin."""

import enum
from typing import TypeAlias

import attrs

from narthex.code import UserCode
from narthex.expr.nodes import LiteralValue
from narthex.expr.nodes import Node as ExprNode
from narthex.operators import Operator
from narthex.origin import NOWHERE, Origin
from narthex.records import DESCRIPTION, record
from narthex.schema import Column, Metadata, Schema
from narthex.types import DataType


@record
@attrs.frozen
class SecretRef:
    """A secret by name; its value is never in a definition."""

    name: str


@record
@attrs.frozen(kw_only=True)
class WebhookEndpoint:
    """Rows that are pushed to `/log`; one ingest topic per (webhook, endpoint)."""

    webhook: str
    endpoint: str


@record
@attrs.frozen(kw_only=True)
class KafkaTopic:
    """Rows in a topic that somebody else owns; JSON objects, one a record.

    Attributes:
        bootstrap_servers: Addresses; empty is the platform's own broker.
    """

    name: str
    bootstrap_servers: str
    topic: str
    format: str = "json"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    username: SecretRef | None = None
    password: SecretRef | None = None


@record
@attrs.frozen(kw_only=True)
class Csv:
    """Delimited text with a header line, or with the headers given."""

    delimiter: str = ","
    headers: tuple[str, ...] | None = None
    null: str = ""


@record
@attrs.frozen(kw_only=True)
class Parquet:
    """Apache Parquet."""


@record
@attrs.frozen(kw_only=True)
class JsonLines:
    """One JSON object a line."""


@record
@attrs.frozen(kw_only=True)
class Files:
    """Files below a path, local or `s3://`; a glob may stand in it.

    A local path that is relative stands below the platform's file root.
    """

    name: str
    path: str
    format: Csv | Parquet | JsonLines


Connector: TypeAlias = WebhookEndpoint | KafkaTopic | Files


@record
class Cdc(enum.Enum):
    """How rows of a source change a dataset."""

    APPEND = "append"
    UPSERT = "upsert"


@record
@attrs.frozen
class Constant:
    """The field is this value in every row."""

    value: LiteralValue


@record
@attrs.frozen
class ColumnRef:
    """The field is the raw column of this name."""

    column: str


@record
@attrs.frozen
class Computed:
    """The field is an expression of raw columns, whose types `schema` gives."""

    expression: ExprNode
    schema: tuple[Column, ...]


Preproc: TypeAlias = Constant | ColumnRef | Computed


@record
@attrs.frozen
class Where:
    """Rows for which it is false or null are counted and left out."""

    expression: ExprNode
    schema: tuple[Column, ...]


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
    where: Where | None = None
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
    """A promise about rows: a Great Expectations type with its keyword arguments."""

    kind: str
    arguments: tuple[tuple[str, LiteralValue], ...]
    mostly: float | None = None


@record
@attrs.frozen(kw_only=True)
class Dataset:
    """A named, typed log of rows with one event-time field."""

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
    """The feature is a column of a dataset, looked up by features named as its keys."""

    feature: str
    dataset: str
    column: str
    default: LiteralValue = None
    has_default: bool = False
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


@record
@attrs.frozen(kw_only=True)
class AliasExtractor:
    """The feature is another featureset's feature, `Featureset.feature`."""

    feature: str
    source: str
    version: int = 0
    origin: Origin = attrs.field(default=NOWHERE, metadata=DESCRIPTION)


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
