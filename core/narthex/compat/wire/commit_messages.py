"""A commit as Fennel's client sends it: all entities in one message."""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from narthex.compat.wire.connector_messages import DatabaseMessage, SinkMessage, SourceMessage
from narthex.compat.wire.expression_messages import ExpressionMessage
from narthex.compat.wire.fields import at
from narthex.compat.wire.pipeline_messages import CodeMessage, PipelineMessage, StepMessage
from narthex.compat.wire.schema_messages import (
    ColumnMessage,
    DatasetSchemaMessage,
    DataTypeMessage,
    DurationMessage,
    MetadataMessage,
)

__all__ = [
    "CommitMessage",
    "DatasetMessage",
    "ExpectationsMessage",
    "ExtractorMessage",
    "FeatureMessage",
    "FeaturesetMessage",
    "IndexMessage",
]


@attrs.frozen(kw_only=True)
class DatasetMessage:
    """A dataset, without its pipelines, sources and indexes; its code is the class."""

    UNREAD: ClassVar = frozenset({5, 8})
    name: str = at(1)
    metadata: MetadataMessage = at(2)
    schema: DatasetSchemaMessage = at(3)
    history: DurationMessage | None = at(4)
    field_metadata: Mapping[str, MetadataMessage] = at(6)
    code: CodeMessage = at(7)
    version: int = at(9)
    tags: tuple[str, ...] = at(10)


@attrs.frozen(kw_only=True)
class FeaturesetMessage:
    """A featureset, without its features; its code is the class without extractors."""

    name: str = at(1)
    metadata: MetadataMessage = at(2)
    code: CodeMessage = at(3)
    tags: tuple[str, ...] = at(4)


@attrs.frozen(kw_only=True)
class FeatureMessage:
    """A feature."""

    name: str = at(1)
    type: DataTypeMessage = at(2)
    metadata: MetadataMessage = at(3)
    featureset: str = at(4)
    tags: tuple[str, ...] = at(5)


@attrs.frozen(kw_only=True)
class FeatureNameMessage:
    """The name of a feature."""

    featureset: str = at(1)
    name: str = at(2)


@attrs.frozen(kw_only=True)
class ExtractorInputMessage:
    """An input of an extractor."""

    UNREAD: ClassVar = frozenset({2})
    feature: FeatureNameMessage = at(1)


@attrs.frozen(kw_only=True)
class LookedUpFieldMessage:
    """The field of a lookup, and the JSON of its default: `null` without one."""

    field: ColumnMessage = at(1)
    default: str = at(3)


@attrs.frozen(kw_only=True)
class AliasMessage:
    """The JSON of an alias's default."""

    UNREAD: ClassVar = frozenset({1})
    default: str = at(2)


@attrs.frozen(kw_only=True)
class ExtractorMessage:
    """An extractor that its env selects."""

    name: str = at(1)
    datasets: tuple[str, ...] = at(2)
    inputs: tuple[ExtractorInputMessage, ...] = at(3)
    features: tuple[str, ...] = at(4)
    metadata: MetadataMessage = at(5)
    version: int = at(6)
    code: CodeMessage | None = at(7)
    featureset: str = at(8)
    kind: int = at(9)
    lookup: LookedUpFieldMessage | None = at(10)
    tags: tuple[str, ...] = at(11)
    expression: ExpressionMessage | None = at(12)
    alias: AliasMessage | None = at(13)


@attrs.frozen(kw_only=True)
class ExpectationMessage:
    """An expectation, with its keyword arguments as JSON."""

    kind: str = at(1)
    arguments: str = at(2)


@attrs.frozen(kw_only=True)
class ExpectationsMessage:
    """The expectations of one entity."""

    UNREAD: ClassVar = frozenset({2, 3, 5, 6, 8})
    entity: str = at(1)
    expectations: tuple[ExpectationMessage, ...] = at(4)
    entity_kind: int = at(7)


@attrs.frozen(kw_only=True)
class IndexMessage:
    """An online or an offline index of a dataset; the client knows only unlimited ones."""

    UNREAD: ClassVar = frozenset({2, 3, 4})
    dataset: str = at(1)


@attrs.frozen(kw_only=True)
class CommitMessage:
    """A whole commit."""

    UNREAD: ClassVar = frozenset({7})
    datasets: tuple[DatasetMessage, ...] = at(1)
    pipelines: tuple[PipelineMessage, ...] = at(2)
    steps: tuple[StepMessage, ...] = at(3)
    featuresets: tuple[FeaturesetMessage, ...] = at(4)
    features: tuple[FeatureMessage, ...] = at(5)
    extractors: tuple[ExtractorMessage, ...] = at(6)
    sources: tuple[SourceMessage, ...] = at(8)
    databases: tuple[DatabaseMessage, ...] = at(9)
    expectations: tuple[ExpectationsMessage, ...] = at(10)
    message: str = at(11)
    offline_indexes: tuple[IndexMessage, ...] = at(12)
    online_indexes: tuple[IndexMessage, ...] = at(13)
    sinks: tuple[SinkMessage, ...] = at(14)
