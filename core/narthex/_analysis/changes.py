"""The changes that a commit makes to the deployed definitions, and which need another version.

A dataset or an extractor whose meaning changes must have a higher version, so that its readers
decide when to follow. Owners, descriptions, tags, expectations, sinks, an index and the polling
interval of a source change no row and need no new version. A higher version of the same content
is allowed: it requests that the rows are computed again.

A commit contains the whole branch: entities that it omits are removed. An incremental commit
removes only the entities that its author marks as deleted.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

import attrs

from narthex._analysis.checks.features import extractor_outputs
from narthex._analysis.fingerprints import enforced_identity, identity_of
from narthex._analysis.row_expectations import columns_of
from narthex._analysis.value_diff import ValueDiff, difference
from narthex._base.canonical import NotCanonicalError, encode
from narthex._base.records import Value
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    CodeExtractor,
    Dataset,
    Definitions,
    Extractor,
    Featureset,
)
from narthex._ir.node_schema import listed
from narthex._ir.operators import AssignCode, DatasetRef, Filter, Operator, Transform, Union
from narthex.errors import DefinitionError, FeatureInvalid, VersionNotRaised, in_source_order

_METADATA: Final = "i "
"""The beginning of the summary lines of entities whose meaning is unchanged."""


@attrs.frozen(kw_only=True)
class Changes:
    """The changes of a commit.

    Attributes:
        definitions: All entities after the commit, including those kept by an incremental one.
        errors: Changes that need a higher version, in source order.
        summary: A line for each entity that differs, for people.
        removed: The datasets and featuresets that the branch loses, for people.
        expectations: The names of the datasets whose expectations differ, new datasets too.
    """

    definitions: Definitions
    errors: tuple[DefinitionError, ...]
    summary: tuple[str, ...]
    removed: tuple[str, ...] = ()
    expectations: frozenset[str] = frozenset()

    @property
    def metadata_only(self) -> tuple[str, ...]:
        """The names of the entities of which only the metadata differs; they need no new asset."""
        return tuple(
            line.removeprefix(_METADATA) for line in self.summary if line.startswith(_METADATA)
        )


def compare(old: Definitions | None, new: Definitions, *, incremental: bool) -> Changes:
    """Compare definitions with the deployed ones; None means that nothing is deployed.

    Args:
        old: The deployed definitions.
        new: The definitions of the commit.
        incremental: Whether entities that the commit omits stay; otherwise they are removed.
    """
    before = old if old is not None else Definitions(datasets=(), featuresets=())
    asked, new = new, _alive(new)
    errors: list[DefinitionError] = []
    datasets = {dataset.name: dataset for dataset in before.datasets}
    for dataset in new.datasets:
        known = datasets.get(dataset.name)
        errors += _dataset_errors(known, dataset) if known else ()
    featuresets = {featureset.name: featureset for featureset in before.featuresets}
    for featureset in new.featuresets:
        known_set = featuresets.get(featureset.name)
        if known_set is not None:
            errors += _featureset_errors(known_set, featureset)
            deleted = _deleted_features(asked, featureset.name)
            errors += _removed_features(known_set, featureset, deleted) if incremental else ()
    after = _union(before, asked) if incremental else new
    return Changes(
        definitions=after,
        errors=in_source_order(errors),
        summary=tuple(chain.from_iterable(changes_by_entity(before, after).values())),
        removed=tuple(_removed(before, after).values()),
        expectations=frozenset(
            dataset.name
            for dataset in after.datasets
            if dataset.name not in datasets
            or dataset.expectations != datasets[dataset.name].expectations
        ),
    )


def changes_by_entity(
    old: Definitions | None, new: Definitions
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the lines of `Changes.summary` of each dataset and featureset that differs.

    Args:
        old: The definitions of a commit's predecessor; None for the first commit of a branch.
        new: The definitions of the commit.

    Returns:
        Lines by `("dataset", name)` or `("featureset", name)`; the lines of a featureset are also
        those of its features.
    """
    before = old if old is not None else Definitions(datasets=(), featuresets=())
    datasets = {one.name: one for one in before.datasets}
    featuresets = {one.name: one for one in before.featuresets}
    found = {
        ("dataset", one.name): tuple(_dataset_lines(datasets.get(one.name), one))
        for one in new.datasets
    }
    for one in new.featuresets:
        found["featureset", one.name] = tuple(_featureset_lines(featuresets.get(one.name), one))
    found |= {entity: (f"- {title}",) for entity, title in _removed(before, new).items()}
    return {entity: lines for entity, lines in found.items() if lines}


def logical(dataset: Dataset) -> tuple[Value, ...]:
    """Return the meaning of a dataset, without its version and the versions of libraries.

    The number of partitions is part of it: another number is another log, which is filled again.
    """
    sources = sorted((identity_of(source) for source in dataset.sources), key=encode)
    computed = tuple(_without_libraries(pipeline.terminal) for pipeline in dataset.pipelines)
    partitions = dataset.log_partitions
    enforced = enforced_identity(dataset)
    return (dataset.schema, dataset.history_us, tuple(sources), computed, partitions, enforced)


def _without_libraries(operator: Operator) -> Operator:
    if isinstance(operator, DatasetRef):
        return operator
    before = _without_libraries(operator.input)
    match operator:
        case Filter(predicate=UserCode() as code):
            return attrs.evolve(operator, input=before, predicate=_bare(code))
        case AssignCode(code=code) | Transform(code=code):
            return attrs.evolve(operator, input=before, code=_bare(code))
        case Union(other=other):
            return attrs.evolve(operator, input=before, other=_without_libraries(other))
        case _:
            return attrs.evolve(operator, input=before)


def _bare(code: UserCode) -> UserCode:
    return attrs.evolve(code, requires=())


def _dataset_errors(old: Dataset, new: Dataset) -> Iterator[DefinitionError]:
    if new.version < old.version:
        yield _lowered(f"dataset `{new.name}`", old.version, new)
    elif new.version == old.version:
        names = ("schema", "history", "sources", "pipeline", "partitions", "enforced expectations")
        kept = attrs.evolve(new, partitions=new.partitions or old.partitions)
        for name, was, now in zip(names, logical(old), logical(kept), strict=True):
            changed = _changed(was, now, name)
            if changed is not None:
                yield VersionNotRaised(
                    f"dataset `{new.name}` changed but its version is still {new.version}: "
                    f"{changed}",
                    origin=new.origin,
                    hint=f"raise version to {new.version + 1}",
                )
                return


def _featureset_errors(old: Featureset, new: Featureset) -> Iterator[DefinitionError]:
    makers = {name: one for one in old.extractors for name in extractor_outputs(old, one)}
    for extractor in new.extractors:
        outputs = extractor_outputs(new, extractor)
        before = {id(makers[name]): makers[name] for name in outputs if name in makers}
        if not before:
            continue
        title = f"extractor of `{outputs[0]}`"
        version = max(one.version for one in before.values())
        if extractor.version < version:
            yield _lowered(title, version, extractor)
        elif extractor.version == version:
            changed = _extractor_changed(old, tuple(before.values()), new, extractor)
            if changed is not None:
                yield VersionNotRaised(
                    f"{title} changed but its version is still {extractor.version}: {changed}",
                    origin=extractor.origin,
                    hint=f"raise version to {extractor.version + 1}",
                )


def _extractor_changed(
    old: Featureset, before: tuple[Extractor, ...], new: Featureset, extractor: Extractor
) -> ValueDiff | None:
    """Return how an extractor differs from those that computed its features before."""
    given = tuple(name for one in before for name in extractor_outputs(old, one))
    outputs = extractor_outputs(new, extractor)
    if sorted(given) != sorted(outputs):
        return ValueDiff(path="outputs", old=listed(given), new=listed(outputs))
    if len(before) > 1:
        return ValueDiff(path="extractor", old=f"{len(before)} extractors", new="one")
    return _changed(meaning_of(old, before[0]), meaning_of(new, extractor), "extractor")


def _changed(old: Value, new: Value, path: str) -> ValueDiff | None:
    try:
        return difference(old, new, path=path)
    except NotCanonicalError:  # `graph.check` reports it
        return None


def meaning_of(featureset: Featureset, extractor: Extractor) -> tuple[Value, ...]:
    """Return the meaning of an extractor, without its version and the versions of libraries."""
    outputs = frozenset(extractor_outputs(featureset, extractor))
    types = tuple(
        (feature.name, feature.type)
        for feature in featureset.features
        if f"{featureset.name}.{feature.name}" in outputs
    )
    if isinstance(extractor, CodeExtractor):
        extractor = attrs.evolve(extractor, name="", code=_bare(extractor.code))
    return (types, attrs.evolve(extractor, version=0))


def _lowered(title: str, was: int, new: Dataset | Extractor) -> VersionNotRaised:
    return VersionNotRaised(
        f"{title} has version {new.version}; version {was} is deployed",
        origin=new.origin,
        hint=f"raise version to {was + 1}, or keep {was} and its definition",
    )


def _alive(definitions: Definitions) -> Definitions:
    """Return the definitions without the entities that are marked as deleted."""
    featuresets = tuple(
        featureset for featureset in definitions.featuresets if not featureset.metadata.deleted
    )
    return Definitions(
        datasets=tuple(dataset for dataset in definitions.datasets if not dataset.metadata.deleted),
        featuresets=tuple(map(_without_deleted, featuresets)),
    )


def _without_deleted(featureset: Featureset) -> Featureset:
    alive = tuple(feature for feature in featureset.features if not feature.metadata.deleted)
    deleted = {feature.name for feature in featureset.features if feature.metadata.deleted}
    expectations = tuple(
        one for one in featureset.expectations if deleted.isdisjoint(columns_of(one))
    )
    return attrs.evolve(featureset, features=alive, expectations=expectations)


def _deleted_features(definitions: Definitions, featureset: str) -> frozenset[str]:
    return frozenset(
        feature.name
        for one in definitions.featuresets
        if one.name == featureset
        for feature in one.features
        if feature.metadata.deleted
    )


def _removed_features(
    old: Featureset, new: Featureset, deleted: frozenset[str]
) -> Iterator[DefinitionError]:
    for name in _lost(old, new):
        if name not in deleted:
            yield FeatureInvalid(
                f"feature `{new.name}.{name}` is deployed but missing; an incremental "
                "commit removes only what is marked as deleted",
                origin=new.origin,
                hint="keep it, or write `feature(…).meta(deleted=True)`",
            )


def _lost(old: Featureset, new: Featureset) -> list[str]:
    kept = {feature.name for feature in new.features}
    return [feature.name for feature in old.features if feature.name not in kept]


def _union(old: Definitions, asked: Definitions) -> Definitions:
    datasets = {dataset.name for dataset in asked.datasets}
    featuresets = {featureset.name for featureset in asked.featuresets}
    new = _alive(asked)
    return Definitions(
        datasets=(*(one for one in old.datasets if one.name not in datasets), *new.datasets),
        featuresets=(
            *(one for one in old.featuresets if one.name not in featuresets),
            *new.featuresets,
        ),
    )


def _dataset_lines(old: Dataset | None, new: Dataset) -> Iterator[str]:
    if old is None:
        yield f"+ dataset `{new.name}` v{new.version}"
    elif new.version != old.version:
        yield f"~ dataset `{new.name}` v{old.version} → v{new.version}"
    elif _described(old) != _described(new):
        yield f"{_METADATA}dataset `{new.name}`: its metadata or its index"


def _described(dataset: Dataset) -> tuple[Value, ...]:
    return (
        dataset.metadata,
        dataset.index,
        dataset.expectations,
        tuple(field.metadata for field in dataset.schema.fields),
        tuple(pipeline.metadata for pipeline in dataset.pipelines),
        tuple(source.every_us for source in dataset.sources),
        dataset.sinks,
    )


def _featureset_lines(old: Featureset | None, new: Featureset) -> Iterator[str]:
    if old is None:
        yield f"+ featureset `{new.name}`"
        return
    known = {extractor_outputs(old, one): one.version for one in old.extractors}
    for extractor in new.extractors:
        outputs = extractor_outputs(new, extractor)
        if outputs not in known:
            yield f"+ feature `{outputs[0]}`"
        elif known[outputs] != extractor.version:
            yield f"~ feature `{outputs[0]}` v{known[outputs]} → v{extractor.version}"
    yield from (f"- feature `{new.name}.{name}`" for name in _lost(old, new))
    before = {feature.name: feature.metadata for feature in old.features}
    changed = any(
        before.get(feature.name, feature.metadata) != feature.metadata for feature in new.features
    )
    if changed or old.metadata != new.metadata:
        yield f"{_METADATA}featureset `{new.name}`: its metadata"
    if old.expectations != new.expectations:
        yield f"{_METADATA}featureset `{new.name}`: its expectations"


def _removed(old: Definitions, new: Definitions) -> dict[tuple[str, str], str]:
    """Return a title for people of each entity that is lost, by kind and name."""
    datasets = {dataset.name for dataset in new.datasets}
    featuresets = {featureset.name for featureset in new.featuresets}
    return {
        ("dataset", one.name): f"dataset `{one.name}` v{one.version}"
        for one in old.datasets
        if one.name not in datasets
    } | {
        ("featureset", one.name): f"featureset `{one.name}`"
        for one in old.featuresets
        if one.name not in featuresets
    }
