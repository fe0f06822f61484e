"""A commit of Fennel's client as our definitions."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

import attrs

from narthex._authoring.error_collection import Reader
from narthex._base.origin import Origin
from narthex._ir.entities import Dataset, Definitions, Expectation, Featureset, Index, Pipeline
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.node_schema import DatasetSchemaInfo
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import Datetime, Struct
from narthex.compat.wire.code import CodeScope
from narthex.compat.wire.commit_messages import (
    CommitMessage,
    DatasetMessage,
    ExpectationMessage,
    FeaturesetMessage,
)
from narthex.compat.wire.connectors import Connectors
from narthex.compat.wire.featuresets import featureset_of, metadata_of_message
from narthex.compat.wire.fields import read_message
from narthex.compat.wire.pipelines import PipelineContext, pipeline_of
from narthex.compat.wire.schema_messages import ColumnMessage
from narthex.compat.wire.sources import SourceContext, sink_of, source_of
from narthex.compat.wire.types import data_type, structs_in
from narthex.errors import DefinitionError, NotYetSupported, RecordNotUnderstood, raise_all

DEFAULT_HISTORY_US: Final = 2 * 365 * 86_400 * 1_000_000
"""The history that the client sends for a dataset whose author wrote none."""

_OF_DATASETS: Final = 0
_OF_REPORTS: Final = frozenset({"catch_exceptions", "include_config", "meta", "result_format"})
"""Arguments of expectations that only select the form of a report."""

_Part = TypeVar("_Part")
_NO_FIELDS: Final = Metadata()


@attrs.frozen(kw_only=True)
class FennelCommit:
    """A commit as an author requested it with Fennel's client.

    Attributes:
        replaced: The names of the secrets that replace credentials sent as text.
    """

    message: str
    definitions: Definitions
    replaced: tuple[str, ...]


def read_commit(body: bytes, *, deployed: Definitions | None = None) -> FennelCommit:
    """Translate a commit; code is parsed and never executed.

    Args:
        body: The bytes that the client sent.
        deployed: The definitions that the commit is added to, if it is incremental: its pipelines
            can read their datasets.

    Raises:
        RecordNotUnderstood: The bytes are not a commit of the client.
        DefinitionErrors: Everything in it that has no equivalent, or that the client leaves out.
    """
    message = read_message(CommitMessage, body)
    commit = _Commit.of(message, deployed)
    datasets = [commit.dataset(one) for one in message.datasets]
    featuresets = [commit.featureset(one) for one in message.featuresets]
    raise_all(commit.errors)
    return FennelCommit(
        message=message.message,
        definitions=Definitions(datasets=tuple(datasets), featuresets=tuple(featuresets)),
        replaced=tuple(commit.connectors.replaced),
    )


@attrs.frozen(kw_only=True)
class _Commit:
    """The parts of a commit while they are translated, with the errors of all of them."""

    message: CommitMessage
    schemas: Mapping[str, Schema]
    readable: Mapping[str, DatasetSchemaInfo]
    scope: CodeScope
    connectors: Connectors = attrs.field(factory=Connectors)
    errors: list[DefinitionError] = attrs.field(factory=list)

    @classmethod
    def of(cls, message: CommitMessage, deployed: Definitions | None) -> "_Commit":
        """Read the schemas first, as pipelines and code refer to any of them.

        Raises:
            DefinitionErrors: A schema cannot be read.
        """
        reader = Reader()
        schemas: dict[str, Schema] = {}
        for one in message.datasets:
            schema = reader.read(partial(_schema_of, one))
            if schema is not None:
                schemas[one.name] = schema
        raise_all(reader.errors)
        known = {} if deployed is None else {one.name: one.schema for one in deployed.datasets}
        every = {**known, **schemas}
        return cls(
            message=message,
            schemas=schemas,
            readable={
                name: DatasetSchemaInfo(name=name, schema=schema) for name, schema in every.items()
            },
            scope=CodeScope(
                datasets=frozenset(every), structs={s.name: s for s in _structs(message, schemas)}
            ),
        )

    def dataset(self, message: DatasetMessage) -> Dataset:
        """Return a dataset with all that could be read; add the errors of the rest."""
        name, schema = message.name, self.schemas[message.name]
        index = self._index(name)
        context = SourceContext(
            dataset=name, schema=schema, scope=self.scope, connectors=self.connectors
        )
        sources = [one for one in self.message.sources if one.dataset == name]
        sinks = [one for one in self.message.sinks if one.dataset == name]
        return Dataset(
            name=name,
            version=message.version,
            schema=schema,
            history_us=None if index is None else _history(message),
            index=index,
            sources=self._read(partial(source_of, one, context) for one in sources),
            pipelines=tuple(self._pipelines(message, schema)),
            expectations=self._read(self._expectations(name)),
            metadata=metadata_of_message(message.metadata),
            origin=context.origin,
            sinks=self._read(partial(sink_of, one, context) for one in sinks),
        )

    def featureset(self, message: FeaturesetMessage) -> Featureset:
        """Return a featureset with the extractors that could be read; add the other errors."""
        found, errors = featureset_of(
            message,
            [one for one in self.message.features if one.featureset == message.name],
            [one for one in self.message.extractors if one.featureset == message.name],
            self.scope,
        )
        self.errors.extend(errors)
        return found

    def _index(self, dataset: str) -> Index | None:
        online = any(one.dataset == dataset for one in self.message.online_indexes)
        offline = any(one.dataset == dataset for one in self.message.offline_indexes)
        return Index(online=online, offline=offline) if online or offline else None

    def _pipelines(self, of: DatasetMessage, schema: Schema) -> Iterator[Pipeline]:
        for message in self.message.pipelines:
            if message.dataset != of.name:
                continue
            steps = [
                step
                for step in self.message.steps
                if (step.dataset, step.pipeline) == (of.name, message.name)
            ]
            context = PipelineContext(
                scope=self.scope,
                datasets=self.readable,
                members=frozenset(schema.columns),
                class_text=of.code.text,
                metadata=metadata_of_message(message.metadata),
            )
            made, errors = pipeline_of(message, steps, context)
            self.errors.extend(errors)
            if made is not None:
                yield made

    def _expectations(self, dataset: str) -> Iterator["partial[Expectation]"]:
        for listed in self.message.expectations:
            if listed.entity != dataset:
                continue
            if listed.entity_kind != _OF_DATASETS:
                self.errors.append(
                    NotYetSupported(
                        f"expectations of `{listed.entity}`, which is not a dataset",
                        hint="declare them in the dataset that its pipeline computes",
                    )
                )
                continue
            yield from (partial(_expectation, one, dataset) for one in listed.expectations)

    def _read(self, parts: "Iterable[partial[_Part]]") -> tuple[_Part, ...]:
        reader = Reader()
        read = [reader.read(part) for part in parts]
        self.errors.extend(reader.errors)
        return tuple(one for one in read if one is not None)


def _schema_of(message: DatasetMessage) -> Schema:
    """Return the columns of a dataset: keys, values, event time.

    The client does not send the order in which the author wrote them.
    """
    columns, origin = message.schema, Origin(file=message.name, line=0)

    def field(column: ColumnMessage, role: Role) -> Field:
        return Field(
            name=column.name,
            type=data_type(column.type),
            role=role,
            erase_key=column.name in columns.erase_keys,
            metadata=_field_metadata(message, column.name),
        )

    try:
        fields = [field(column, Role.KEY) for column in columns.keys.columns]
        fields += [field(column, Role.VALUE) for column in columns.values.columns]
    except DefinitionError as error:
        raise error.located(origin, subject=f"dataset `{message.name}`") from None
    timestamp = Field(
        name=columns.timestamp,
        type=Datetime(),
        role=Role.TIMESTAMP,
        metadata=_field_metadata(message, columns.timestamp),
    )
    return Schema((*fields, timestamp))


def _field_metadata(message: DatasetMessage, name: str) -> Metadata:
    found = message.field_metadata.get(name)
    return _NO_FIELDS if found is None else metadata_of_message(found)


def _history(message: DatasetMessage) -> int | None:
    """Return the history of a dataset; None for the client's default."""
    sent = None if message.history is None else message.history.micros
    return None if sent in {0, DEFAULT_HISTORY_US} else sent


def _structs(message: CommitMessage, schemas: Mapping[str, Schema]) -> Iterator[Struct]:
    for schema in schemas.values():
        for of in schema.columns.values():
            yield from structs_in(of)
    for feature in message.features:
        yield from structs_in(data_type(feature.type))


def _expectation(message: ExpectationMessage, dataset: str) -> Expectation:
    origin = Origin(file=dataset, line=0)
    try:
        arguments = json.loads(message.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise RecordNotUnderstood(
            f"the arguments of `{message.kind}` are not a JSON object", origin=origin
        )
    if arguments.pop("parse_strings_as_datetimes", None):
        raise NotYetSupported(
            f"`parse_strings_as_datetimes` of `{message.kind}`",
            origin=origin,
            hint="make the field a `datetime`",
        )
    mostly = arguments.pop("mostly", None)
    return Expectation(
        kind=message.kind,
        arguments=tuple(
            (name, _argument(value))
            for name, value in arguments.items()
            if value is not None and name not in _OF_REPORTS
        ),
        mostly=float(mostly) if isinstance(mostly, int | float) else None,
    )


def _argument(value: object) -> LiteralValue:
    match value:
        case list():
            return tuple(map(_argument, value))
        case dict():
            return json.dumps(value, sort_keys=True)
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise RecordNotUnderstood(f"`{value!r}` is not JSON")
