"""Group the changes of a commit by their causes.

An entity is a cause when its own definition differs. The entities that it feeds change with it and
are listed below it, not by themselves; so an author reads one line for each edit.
"""

from collections.abc import Collection, Iterator, Mapping

import attrs

from narthex._analysis.changes import meaning_of
from narthex._analysis.checks.features import extractor_inputs, extractor_outputs
from narthex._analysis.fingerprints import enforced_identity, identity_of
from narthex._analysis.graph import pipeline_reads
from narthex._analysis.value_diff import ValueDiff, difference
from narthex._base.canonical import NotCanonicalError, encode
from narthex._base.records import Value
from narthex._ir.entities import (
    CodeExtractor,
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
    datasets = dict(_dataset_causes(before, new))
    features = dict(_feature_causes(before, new))
    of_datasets = [
        attrs.evolve(cause, downstream=_followers(new, name, datasets, features))
        for name, cause in datasets.items()
    ]
    of_features = [
        attrs.evolve(
            cause,
            downstream=(
                *cause.downstream,
                *_fed(new, features={name, *cause.downstream}, causes=features),
            ),
        )
        for name, cause in features.items()
    ]
    return (*of_datasets, *of_features, *_new_featuresets(before, new), *_removed(before, new))


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


def _followers(
    new: Definitions,
    name: str,
    datasets: Mapping[str, ChangeCause],
    features: Mapping[str, ChangeCause],
) -> tuple[str, ...]:
    """Name what a dataset feeds: datasets and features that are not causes themselves."""
    reached = _reached(new, name)
    return (
        *(one for one in reached if one != name and one not in datasets),
        *_fed(new, datasets=reached, causes=features),
    )


def _fed(
    new: Definitions,
    *,
    datasets: Collection[str] = (),
    features: Collection[str] = (),
    causes: Mapping[str, ChangeCause],
) -> tuple[str, ...]:
    """Name the features that are computed from datasets or features, directly or through others.

    Features that are causes themselves, or the given ones, are left out.
    """
    by_name = {dataset.name: dataset for dataset in new.datasets}
    extractors = [
        (
            frozenset(extractor_outputs(featureset, extractor)),
            frozenset(extractor_inputs(featureset, extractor, by_name)),
            _looked_up(extractor),
        )
        for featureset in new.featuresets
        for extractor in featureset.extractors
    ]
    reached = {*features}
    while True:
        more = {
            output
            for outputs, inputs, looked_up in extractors
            if inputs & reached or looked_up.intersection(datasets)
            for output in outputs
        }
        if more <= reached:
            break
        reached |= more
    skipped = {*features, *causes}
    return tuple(
        output
        for featureset in new.featuresets
        for extractor in featureset.extractors
        for output in extractor_outputs(featureset, extractor)
        if output in reached and output not in skipped
    )


def _looked_up(extractor: Extractor) -> frozenset[str]:
    """Return the datasets that an extractor reads."""
    if isinstance(extractor, LookupExtractor):
        return frozenset({extractor.dataset})
    return frozenset(extractor.datasets if isinstance(extractor, CodeExtractor) else ())


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


def _new_featuresets(old: Definitions, new: Definitions) -> Iterator[ChangeCause]:
    known = {featureset.name for featureset in old.featuresets}
    for featureset in new.featuresets:
        if featureset.name not in known:
            yield ChangeCause(entity=f"featureset `{featureset.name}`", what="new")


def _feature_causes(old: Definitions, new: Definitions) -> Iterator[tuple[str, ChangeCause]]:
    """Yield the edited features of featuresets that exist already."""
    known = {featureset.name: featureset for featureset in old.featuresets}
    for featureset in new.featuresets:
        was = known.get(featureset.name)
        if was is None:
            continue
        makers = {output: one for one in was.extractors for output in extractor_outputs(was, one)}
        for extractor in featureset.extractors:
            outputs = extractor_outputs(featureset, extractor)
            cause = _extractor_cause(was, makers.get(outputs[0]), featureset, extractor)
            if cause is not None:
                yield outputs[0], cause


def _extractor_cause(
    old: Featureset, was: Extractor | None, new: Featureset, extractor: Extractor
) -> ChangeCause | None:
    outputs = extractor_outputs(new, extractor)
    entity = f"feature `{outputs[0]}`"
    if was is None:
        return ChangeCause(entity=entity, what="new", downstream=outputs[1:])
    found = _differ(meaning_of(old, was), meaning_of(new, extractor), "extractor")
    found = found or _differ(was.version, extractor.version, "version")
    if found is None:
        return None
    return ChangeCause(entity=entity, what="changed", difference=found, downstream=outputs[1:])


def _removed(old: Definitions, new: Definitions) -> Iterator[ChangeCause]:
    datasets = {dataset.name for dataset in new.datasets}
    featuresets = {featureset.name for featureset in new.featuresets}
    for dataset in old.datasets:
        if dataset.name not in datasets:
            yield ChangeCause(entity=f"dataset `{dataset.name}`", what="removed")
    for featureset in old.featuresets:
        if featureset.name not in featuresets:
            yield ChangeCause(entity=f"featureset `{featureset.name}`", what="removed")
