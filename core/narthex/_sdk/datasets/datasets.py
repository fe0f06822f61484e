"""Datasets as objects in authors' code."""

from collections.abc import Callable, Sequence
from types import FrameType
from typing import overload

import attrs
from typing_extensions import override

from narthex._analysis.checks.expectations import enforced_on_aggregates
from narthex._authoring.durations import read_duration
from narthex._authoring.error_collection import report
from narthex._authoring.source_locations import (
    ClassPlaces,
    author_frame,
    author_origin,
    class_places,
)
from narthex._base.origin import Origin
from narthex._ir.entities import Dataset as DatasetEntity
from narthex._ir.entities import Expectation, Index, Sink, Source
from narthex._ir.node_schema import DatasetSchemaInfo
from narthex._ir.operators import Aggregate
from narthex._ir.schema import Metadata, Schema
from narthex._ir.types import Null, Optional
from narthex._sdk.closure import OwnClass
from narthex._sdk.datasets.lookup_calls import check_lookup
from narthex._sdk.datasets.output_check import check_output
from narthex._sdk.datasets.pipelines import BuiltPipeline, PipelineCall, build_pipeline, inputs_of
from narthex._sdk.declare.env import selected
from narthex._sdk.declare.expectations import ExpectationsCall, build_expectations
from narthex._sdk.declare.fields import Field, annotations_of, build_schema
from narthex._sdk.declare.metadata import (
    META_ATTRIBUTE,
    check_metadata,
    completed,
    default_owner,
    documentation_of,
    metadata_of,
)
from narthex.errors import (
    ArgumentInvalid,
    DefinitionError,
    IndexInvalid,
    PipelineInvalid,
)
from narthex.lookups import reference
from narthex.settings import MOST_PARTITIONS

_EMPTY = Schema(())


@attrs.define(kw_only=True, eq=False)
class Declared:
    """The declarations of a dataset; decorators above `@dataset` add to it.

    Attributes:
        broken: Whether it has errors; such a dataset exists only while errors are collected.
        needs_no_index: Whether a history without an index is left out instead of refused, as in
            code for Fennel's client.
    """

    name: str
    version: int
    schema: Schema
    origin: Origin
    history_us: int | None
    index: Index | None
    needs_no_index: bool = False
    partitions: int | None = None
    pipelines: tuple[BuiltPipeline, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    sources: tuple[Source, ...] = ()
    sinks: tuple[Sink, ...] = ()
    default_owner: str = ""
    documentation: str = ""
    broken: bool = False


class Dataset:
    """A named, typed log of rows, as `@dataset` makes it.

    Its fields are attributes: `User.name` is a `Field`.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self.__narthex_dataset_name__ = declared.name

    @property
    def fields(self) -> list[Field]:
        """All fields, in the author's order."""
        return [self._field(field.name) for field in self._declared.schema.fields]

    @property
    def key_fields(self) -> list[str]:
        """The names of the key fields."""
        return [column.name for column in self._declared.schema.keys]

    @property
    def erase_key_fields(self) -> list[str]:
        """The names of the fields by which rows are erased."""
        return [field.name for field in self._declared.schema.fields if field.erase_key]

    @property
    def timestamp_field(self) -> str:
        """The name of the event time."""
        return self._declared.schema.timestamp

    def fqn(self) -> str:
        """Return the dataset's name."""
        return self._declared.name

    def lookup(
        self, ts: object, *positional: object, fields: Sequence[str] = (), **keys: object
    ) -> tuple[object, object]:
        """Return rows as of `ts`: a frame of `fields`, and a column that marks the found rows.

        Call it in an extractor that names the dataset in `deps`, or where a client of
        `narthex.testing` answers. Without `fields`, the frame has all of them.

        Raises:
            LookupImpossible: The call is elsewhere, or does not have a column for `ts` and for each
                key, by name.
        """
        check_lookup(
            self._declared.name, self._declared.schema, ts, positional, keys=keys, fields=fields
        )
        return reference(self._declared.name).lookup(ts, fields=fields, **keys)

    def _field(self, name: str) -> Field:
        of = self._declared.schema.columns[name]
        return Field(
            dataset=self._declared.name,
            name=name,
            dtype=of,
            optional=isinstance(of, Optional),
            keys=self._declared.schema.keys,
            is_indexed=self._declared.index is not None,
            is_broken=self._declared.broken,
        )

    def __getattr__(self, name: str) -> Field:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._declared.schema.columns:
            return self._field(name)
        if self._declared.broken:  # its errors are already reported; reading goes on
            return Field(dataset=self._declared.name, name=name, dtype=Null(), is_broken=True)
        raise AttributeError(
            f"dataset `{self._declared.name}` has no field `{name}`; it has "
            f"{', '.join(self._declared.schema.columns)}"
        )

    @override
    def __repr__(self) -> str:
        return f"<dataset {self._declared.name}@{self._declared.version}>"


LATER_ATTRIBUTE = "__narthex_later__"
"""The attribute of a class for decorators below `@dataset`, until the dataset exists."""


def later_on(cls: object, read: Callable[[Dataset], Sequence[DefinitionError]]) -> bool:
    """Call `read` with a class's dataset once it exists; return False if it is not a class."""
    if not isinstance(cls, type) or cls.__module__ == "builtins":
        return False
    waiting = cls.__dict__.get(LATER_ATTRIBUTE, ())
    setattr(cls, LATER_ATTRIBUTE, (*waiting, read))
    return True


def declared(dataset: Dataset) -> Declared:
    """Return the declarations of a dataset."""
    return dataset._declared  # noqa: SLF001 (private, because `Orders.name` is a field)


@overload
def dataset(cls: type) -> Dataset: ...
@overload
def dataset(
    cls: None = None,
    version: int = 1,
    history: str | None = None,
    index: bool = False,
    offline: bool | None = None,
    online: bool | None = None,
    *,
    partitions: int | None = None,
) -> Callable[[type], Dataset]: ...
def dataset(  # noqa: PLR0913 - a dataset has these options
    cls: type | None = None,
    version: int = 1,
    history: str | None = None,
    index: bool = False,
    offline: bool | None = None,
    online: bool | None = None,
    *,
    partitions: int | None = None,
) -> Dataset | Callable[[type], Dataset]:
    """Declare a dataset: the class's annotations are its fields.

    Args:
        cls: The class, if the decorator has no parentheses.
        version: Raise it when the meaning of the dataset changes.
        history: How far lookups look back from their instant, or from the watermark (the newest
            row less the disorder) if that is earlier; by default, they see all rows. The index
            deletes rows that have become too old, and refuses lookups as of instants long before
            the watermark. It must not be shorter than the windows of the dataset's aggregates.
            Pipelines read all rows.
        index: Whether it can be looked up, online and offline.
        offline: Whether it can be looked up as of any instant.
        online: Whether it can be looked up as of now.
        partitions: How many partitions its log has, 1 to 1,024. With more than two, its index and
            some of its jobs have a shard for each. By default, a deployed dataset has the number
            that it had, and a new one that of the installation. Another number needs a higher
            version, which computes the rows again.

    Raises:
        DefinitionErrors: All errors of the class, each with its file and line.
    """
    frame, origin = author_frame(), author_origin()

    def declare(of: type) -> Dataset:
        if not isinstance(of, type):
            raise ArgumentInvalid("`@dataset` decorates a class", origin=origin)
        places = class_places(of.__name__, frame)
        errors: list[DefinitionError] = []
        built = Declared(
            name=of.__name__,
            version=_read_version(version, places.origin, errors),
            schema=_EMPTY,
            origin=places.origin,
            history_us=_read_history(history, origin, errors),
            index=_read_index(index, offline, online, origin, errors),
            partitions=_read_partitions(partitions, origin, errors),
            default_owner=default_owner(frame),
        )
        found = _fill(of, built, frame, places, errors)
        report(errors)
        return found

    return declare if cls is None else declare(cls)


def _fill(
    cls: type,
    built: Declared,
    frame: FrameType | None,
    places: ClassPlaces,
    errors: list[DefinitionError],
) -> Dataset:
    annotations = annotations_of(cls, frame)
    schema, wrong = build_schema(cls, annotations, places)
    errors += wrong
    built.schema = schema or _EMPTY
    built.documentation = documentation_of(cls)
    found = Dataset(built)
    if META_ATTRIBUTE in cls.__dict__:
        setattr(found, META_ATTRIBUTE, metadata_of(cls))
    if schema is not None:
        errors += _index_errors(built, places.origin)
        _fill_pipelines(cls, built, schema, errors)
        _fill_expectations(cls, built, schema, errors)
    errors += check_metadata(metadata_of(found), origin=places.origin)
    errors += check_metadata(Metadata(owner=built.default_owner), origin=places.origin)
    built.broken = bool(errors)
    for read in cls.__dict__.get(LATER_ATTRIBUTE, ()):
        errors += read(found)
    return found


def _fill_pipelines(
    cls: type, built: Declared, schema: Schema, errors: list[DefinitionError]
) -> None:
    own = OwnClass(cls, {field.name: field for field in Dataset(built).fields})
    for name, call in list(vars(cls).items()):
        if not isinstance(call, PipelineCall):
            continue
        given: dict[str, DatasetSchemaInfo | None] = {}
        for one in inputs_of(call.function):
            if isinstance(one, Dataset):
                given[declared(one).name] = schema_info(one)
            else:
                errors.append(_no_dataset(name, one, call.origin))
        made = build_pipeline(name, call, own, given)
        errors += made.errors
        if made.schema is not None and not made.errors:
            errors += check_output(made.schema, schema, built.name, name, call.origin)
        built.pipelines = (*built.pipelines, made)


def _no_dataset(pipeline: str, found: object, origin: Origin) -> DefinitionError:
    return PipelineInvalid(
        f"pipeline `{pipeline}` has the input `{found!r}`, which is not a dataset",
        origin=origin,
        hint="pass the dataset's class itself",
    )


def _fill_expectations(
    cls: type, built: Declared, schema: Schema, errors: list[DefinitionError]
) -> None:
    calls = [call for call in vars(cls).values() if isinstance(call, ExpectationsCall)]
    made, wrong = build_expectations(calls, cls, schema.columns)
    built.expectations = made
    errors += wrong
    ends = [one.pipeline.terminal for one in built.pipelines if one.pipeline is not None]
    if calls and any(isinstance(terminal, Aggregate) for terminal in ends):
        errors += enforced_on_aggregates(built.name, made, calls[0].origin)


def schema_info(dataset: Dataset) -> DatasetSchemaInfo | None:
    """Return the schema information of a dataset for a pipeline; None if the dataset has errors."""
    known = declared(dataset)
    if known.broken:
        return None
    return DatasetSchemaInfo(
        name=known.name,
        schema=known.schema,
        terminal=any(pipeline.terminal for pipeline in known.pipelines),
        correctable=any(p.schema.correctable for p in known.pipelines if p.schema is not None),
    )


def _read_version(version: object, origin: Origin, errors: list[DefinitionError]) -> int:
    if isinstance(version, int) and not isinstance(version, bool) and version >= 1:
        return version
    errors.append(
        ArgumentInvalid(
            f"version `{version!r}` is not a whole number from one on",
            origin=origin,
        )
    )
    return 1


def _read_partitions(
    partitions: object, origin: Origin, errors: list[DefinitionError]
) -> int | None:
    if partitions is None:
        return None
    is_whole = isinstance(partitions, int) and not isinstance(partitions, bool)
    if isinstance(partitions, int) and is_whole and 1 <= partitions <= MOST_PARTITIONS:
        return partitions
    errors.append(
        ArgumentInvalid(
            f"`partitions` got `{partitions!r}`, which is not a whole number from 1 to "
            f"{MOST_PARTITIONS}",
            origin=origin,
        )
    )
    return None


def _read_history(history: object, origin: Origin, errors: list[DefinitionError]) -> int | None:
    if history is None or history == "forever":
        return None
    try:
        return read_duration(history, origin=origin, what="`history`")
    except DefinitionError as error:
        errors.append(error)
        return None


def _read_index(
    index: bool,
    offline: bool | None,
    online: bool | None,
    origin: Origin,
    errors: list[DefinitionError],
) -> Index | None:
    if index:
        if offline or online:
            errors.append(
                IndexInvalid(
                    "`index=True` is online and offline already; "
                    "`online` and `offline` can only be False beside it",
                    origin=origin,
                )
            )
        return Index(online=online is not False, offline=offline is not False)
    if offline and online:
        errors.append(
            IndexInvalid(
                "`online=True` and `offline=True` together are `index=True`",
                origin=origin,
                hint="write `index=True`",
            )
        )
    if offline or online:
        return Index(online=bool(online), offline=bool(offline))
    return None


def _index_errors(built: Declared, origin: Origin) -> list[DefinitionError]:
    if built.index is None or built.schema.keys:
        return []
    return [
        IndexInvalid(
            f"dataset `{built.name}` has an index but no key; rows are looked up by key",
            origin=origin,
            hint="mark the key with `field(key=True)`, or leave the index out",
        )
    ]


@overload
def index(obj: Dataset) -> Dataset: ...
@overload
def index(
    obj: None = None, type: str = "primary", online: bool = True, offline: str | None = "forever"
) -> Callable[[Dataset], Dataset]: ...
def index(
    obj: Dataset | None = None,
    type: str = "primary",
    online: bool = True,
    offline: str | None = "forever",
) -> Dataset | Callable[[Dataset], Dataset]:
    """Enable lookups of a keyed dataset; put it above `@dataset`.

    Args:
        obj: The dataset, if the decorator has no parentheses.
        type: `primary`, by the dataset's key.
        online: Whether it can be looked up as of now.
        offline: `forever` for lookups as of any instant, or None.

    Raises:
        DefinitionErrors: The dataset has no key or an index already, or an argument is unknown.
    """
    origin = author_origin()

    def add(to: Dataset) -> Dataset:
        if not isinstance(to, Dataset):
            raise IndexInvalid("place `@index` above `@dataset`", origin=origin)
        known = declared(to)
        errors = _index_argument_errors(type, offline, origin)
        if known.index is not None:
            errors.append(
                IndexInvalid(
                    f"dataset `{known.name}` has an index already",
                    origin=origin,
                    hint="declare it once, here or in `@dataset`",
                )
            )
        known.index = Index(online=online, offline=offline is not None)
        if not known.broken:
            errors += _index_errors(known, origin)
        report(errors)
        return to

    return add if obj is None else add(obj)


def _index_argument_errors(type: str, offline: str | None, origin: Origin) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    if type != "primary":
        errors.append(
            IndexInvalid(f"index type `{type}` is unknown; it can be `primary`", origin=origin)
        )
    if offline not in {None, "forever"}:
        errors.append(
            IndexInvalid(f"`offline` got `{offline}`; it can be `forever` or None", origin=origin)
        )
    return errors


def dataset_entity(dataset: Dataset, env: str | None = None) -> DatasetEntity:
    """Return the definition of a dataset in a commit, for one env."""
    known = declared(dataset)
    said = completed(
        metadata_of(dataset), owner=known.default_owner, documentation=known.documentation
    )
    return DatasetEntity(
        name=known.name,
        version=known.version,
        schema=known.schema,
        history_us=None if known.needs_no_index and known.index is None else known.history_us,
        index=known.index,
        partitions=known.partitions,
        sources=tuple(source for source in known.sources if selected(source.env, env)),
        sinks=tuple(sink for sink in known.sinks if selected(sink.env, env)),
        pipelines=tuple(
            made.pipeline
            for made in known.pipelines
            if made.pipeline is not None and selected(made.pipeline.env, env)
        ),
        expectations=known.expectations,
        metadata=said,
        origin=known.origin,
    )


def is_deleted(dataset: Dataset) -> bool:
    """Whether `@meta(deleted=True)` excludes the dataset from commits."""
    return metadata_of(dataset).deleted
