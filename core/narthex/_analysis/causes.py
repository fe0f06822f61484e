"""Group the changes of a commit by their causes.

An entity is a cause when its own definition differs. The entities that it feeds change with it and
are listed below it, not by themselves; so an author reads one line for each edit.
"""

from collections.abc import Iterator, Mapping

import attrs

from narthex._analysis.changes import meaning_of
from narthex._analysis.checks.features import extractor_outputs
from narthex._analysis.fingerprints import enforced_identity, identity_of
from narthex._analysis.graph import pipeline_reads
from narthex._analysis.value_diff import ValueDiff, difference
from narthex._base.canonical import NotCanonicalError, encode
from narthex._base.records import Value
from narthex._ir.entities import (
    Dataset,
    Definitions,
    Extractor,
    Featureset,
    LookupExtractor,
)


@attrs.frozen(kw_only=True)
class ChangeCause:
    """One edited entity, and the changes that follow from it.

    Attributes:
        entity: The edited entity, such as "dataset `Orders`".
        what: `new`, `changed` or `removed`.
        difference: The first difference; None when the entity is new or removed.
        downstream: The names of the entities that change only because this one did.
    """

    entity: str
    what: str
    difference: ValueDiff | None = None
    downstream: tuple[str, ...] = ()


def change_causes(old: Definitions | None, new: Definitions) -> tuple[ChangeCause, ...]:
    """Return the causes of all differences, in the order of the definitions."""
    before = old if old is not None else Definitions(datasets=(), featuresets=())
    causes = dict(_dataset_causes(before, new))
    followers = _followers(new, causes)
    named = [attrs.evolve(cause, downstream=followers[name]) for name, cause in causes.items()]
    return (*named, *_feature_causes(before, new), *_removed(before, new))


def _dataset_causes(old: Definitions, new: Definitions) -> Iterator[tuple[str, ChangeCause]]:
    known = {dataset.name: dataset for dataset in old.datasets}
    for dataset in new.datasets:
        entity = f"dataset `{dataset.name}`"
        was = known.get(dataset.name)
        if was is None:
            yield dataset.name, ChangeCause(entity=entity, what="new")
            continue
        found = _dataset_difference(was, dataset)
        if found is not None:
            yield dataset.name, ChangeCause(entity=entity, what="changed", difference=found)


def _dataset_difference(old: Dataset, new: Dataset) -> ValueDiff | None:
    parts = (
        "schema",
        "history",
        "sources",
        "pipeline",
        "partitions",
        "enforced expectations",
        "index",
    )
    for name, was, now in zip(parts, _whole(old), _whole(new), strict=True):
        found = _differ(was, now, name)
        if found is not None:
            return found
    return _differ(old.version, new.version, "version")


def _whole(dataset: Dataset) -> tuple[Value, ...]:
    sources = sorted((identity_of(source) for source in dataset.sources), key=encode)
    computed = tuple(pipeline.terminal for pipeline in dataset.pipelines)
    partitions = dataset.log_partitions
    return (
        dataset.schema,
        dataset.history_us,
        tuple(sources),
        computed,
        partitions,
        enforced_identity(dataset),
        dataset.index,
    )


def _differ(old: Value, new: Value, path: str) -> ValueDiff | None:
    try:
        return difference(old, new, path=path)
    except NotCanonicalError:  # `graph.check` reports it
        return None


def _followers(new: Definitions, causes: Mapping[str, ChangeCause]) -> dict[str, tuple[str, ...]]:
    """Map each cause to its downstream changes: datasets that are not causes themselves, and
    features.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in causes:
        reached = _reached(new, name)
        datasets = [one for one in reached if one != name and one not in causes]
        features = [
            f"{featureset.name}.{extractor.feature}"
            for featureset in new.featuresets
            for extractor in featureset.extractors
            if isinstance(extractor, LookupExtractor) and extractor.dataset in reached
        ]
        found[name] = (*datasets, *features)
    return found


def _reached(new: Definitions, name: str) -> tuple[str, ...]:
    """Return the names of a dataset and of all computed from it, in the definitions' order."""
    reached = {name}
    grown = True
    while grown:
        more = {
            dataset.name
            for dataset in new.datasets
            for pipeline in dataset.pipelines
            if reached & set(pipeline_reads(pipeline))
        }
        grown = not more <= reached
        reached |= more
    return tuple(one.name for one in new.datasets if one.name in reached)


def _feature_causes(old: Definitions, new: Definitions) -> Iterator[ChangeCause]:
    known = {featureset.name: featureset for featureset in old.featuresets}
    for featureset in new.featuresets:
        was = known.get(featureset.name)
        if was is None:
            yield ChangeCause(entity=f"featureset `{featureset.name}`", what="new")
            continue
        makers = {output: one for one in was.extractors for output in extractor_outputs(was, one)}
        for extractor in featureset.extractors:
            yield from _extractor_cause(was, makers, featureset, extractor)


def _extractor_cause(
    old: Featureset, makers: Mapping[str, Extractor], new: Featureset, extractor: Extractor
) -> Iterator[ChangeCause]:
    outputs = extractor_outputs(new, extractor)
    entity = f"feature `{outputs[0]}`"
    was = makers.get(outputs[0])
    if was is None:
        yield ChangeCause(entity=entity, what="new")
        return
    found = _differ(meaning_of(old, was), meaning_of(new, extractor), "extractor")
    found = found or _differ(was.version, extractor.version, "version")
    if found is not None:
        yield ChangeCause(entity=entity, what="changed", difference=found, downstream=outputs[1:])


def _removed(old: Definitions, new: Definitions) -> Iterator[ChangeCause]:
    datasets = {dataset.name for dataset in new.datasets}
    featuresets = {featureset.name for featureset in new.featuresets}
    for dataset in old.datasets:
        if dataset.name not in datasets:
            yield ChangeCause(entity=f"dataset `{dataset.name}`", what="removed")
    for featureset in old.featuresets:
        if featureset.name not in featuresets:
            yield ChangeCause(entity=f"featureset `{featureset.name}`", what="removed")
