"""The answers of the routes of the catalog, as they are documented."""

from typing import Required

from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex_server.operations.job_status import Job
from narthex_server.web.plain_routes import Id, Instant


class DatasetColumn(TypedDict):
    """A column of a dataset."""

    name: str
    type: str


class DeployedDataset(TypedDict):
    """A deployed dataset.

    Attributes:
        timestamp: The column with the event time.
        rows: How many records its log has; null while the broker does not report it.
        quarantined: How many rows are in quarantine; null while the broker does not report it.
        expectations: How many expectations it has.
        online: Whether its rows can be looked up.
        partitions: How many partitions its log has.
        newest_event: The newest event time in its history; null while it is unknown.
        watermark: Up to which event time its rows are complete, as far as the `disorder` of its
            sources is right; null while that is not known.
    """

    name: str
    version: int
    keys: list[str]
    columns: list[DatasetColumn]
    timestamp: str
    rows: int | None
    quarantined: int | None
    expectations: int
    owner: str
    description: str
    online: bool
    partitions: int
    newest_event: Instant | None
    watermark: Instant | None


class Datasets(TypedDict):
    """The deployed datasets."""

    datasets: list[DeployedDataset]


class DatasetStorage(TypedDict):
    """How a dataset is stored.

    Attributes:
        plan: The record by which its rows are read.
        history: The name of the Delta table with its history, in the directory of histories.
        topic: The topic of its log.
    """

    plan: JsonValue
    history: str
    topic: str


DeployedFeature = TypedDict(
    "DeployedFeature", {"name": str, "type": str, "from": str, "description": str}
)
"""A feature, and what it is computed from."""


class DeployedFeatureset(TypedDict):
    """A deployed featureset.

    Attributes:
        expectations: How many expectations it has.
    """

    name: str
    owner: str
    description: str
    features: list[DeployedFeature]
    expectations: int


class FeaturesetDefinition(TypedDict):
    """The features and the expectations of a featureset.

    Attributes:
        definition: The record of it, with its visible features and without extractors.
    """

    definition: JsonValue


class Featuresets(TypedDict):
    """The deployed featuresets."""

    featuresets: list[DeployedFeatureset]


class JobList(TypedDict):
    """JobList and feeds, by label and kind."""

    jobs: list[Job]


QualityAudit = TypedDict(
    "QualityAudit",
    {
        "branch": str,
        "dataset": str,
        "success": bool,
        "is_critical": bool,
        "commit_id": Id | None,
        "from": Instant | None,
        "to": Instant | None,
        "at": Instant | None,
        "by": JsonValue,
        "rows": JsonValue,
        "failed": JsonValue,
        "result": JsonValue,
    },
)
"""An audit of rows against the expectations about them; the rows from `from` to `to`.

`dataset` is the name of the dataset, or of the featureset if `by` is `logged`: then the rows are
the answers of logged queries. Otherwise `by` is the time of the rows of a dataset that `from` and
`to` are about: `event_time`, or `arrival`.

`commit_id` is the commit before which the whole history was checked; null for other audits.
"""


class QualityAudits(TypedDict):
    """Quality audits, newest first."""

    audits: list[QualityAudit]


class StoredAudit(TypedDict):
    """The id of a stored audit."""

    audit_id: Id


class LineageNode(TypedDict):
    """A source, a dataset or a feature."""

    name: str
    kind: str


LineageEdge = TypedDict("LineageEdge", {"from": str, "to": str, "kinds": list[str]})
"""An edge between two nodes, and their kinds."""


class Lineage(TypedDict):
    """The deployed lineage."""

    nodes: list[LineageNode]
    edges: list[LineageEdge]


class DatasetProperties(TypedDict, total=False):
    """Properties of a dataset; only the requested ones.

    Attributes:
        columns: The type of each column.
        timestamp: The column with the event time.
        expectations: Each with its severity, for people.
    """

    name: Required[str]
    version: int
    owner: str
    description: str
    tags: list[str]
    columns: dict[str, str]
    keys: list[str]
    timestamp: str
    sources: list[str]
    pipelines: list[str]
    expectations: list[str]


class FeaturesetProperties(TypedDict, total=False):
    """Properties of a featureset; only the requested ones.

    Attributes:
        features: The type of each feature.
        expectations: Each with its severity, for people.
    """

    name: Required[str]
    owner: str
    description: str
    tags: list[str]
    features: dict[str, str]
    expectations: list[str]


class EntityProperties(TypedDict):
    """Properties of entities."""

    datasets: list[DatasetProperties]
    featuresets: list[FeaturesetProperties]


class Holder(TypedDict):
    """A pin of an asset: a branch, and the commit or the query that holds it."""

    branch: str | None
    holder: str
    commit_id: Id | None
    expires_at: Instant | None


class RetainedAsset(TypedDict):
    """An asset that is not destroyed.

    Attributes:
        paths: The names under which branches bind it.
        refs: How many pins retain it.
    """

    asset_id: int
    label: str
    kind: str
    state: str
    physical_name: str
    fingerprint: str
    incarnation: int
    paths: list[str]
    refs: int
    live_at: Instant | None
    held_by: list[Holder]


class RetainedAssets(TypedDict):
    """A page of assets, by id.

    Attributes:
        next: The value of `after` for the next page; null at the end.
    """

    assets: list[RetainedAsset]
    next: int | None
