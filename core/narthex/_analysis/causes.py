"""Group the changes of a commit by their causes.

An entity is a cause when its own definition differs. The entities that it feeds change with it and
are listed below it, not by themselves; so an author reads one line for each edit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

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
    extractions = _extractions(new) if datasets or features else ()
    reads = _reads(new)
    computed = {name: _reached(reads, name) for name in datasets}
    of_datasets = [
        attrs.evolve(
            cause,
            downstream=(
                *(one for one in computed[name] if one != name and one not in datasets),
                *_fed(extractions, datasets=computed[name], causes=features),
            ),
        )
        for name, cause in datasets.items()
    ]
    of_features = [
        attrs.evolve(
            cause,
            downstream=(
                *cause.downstream,
                *_fed(extractions, features={name, *cause.downstream}, causes=features),
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


@attrs.frozen(kw_only=True)
class Extraction:
    """The features that an extractor computes, and what it computes them from.

    Attributes:
        outputs: Their names with those of the featureset, in order.
        inputs: The features that it needs, named in the same way.
        datasets: The datasets that it looks up.
    """

    outputs: tuple[str, ...]
    inputs: frozenset[str]
    datasets: frozenset[str]


def _extractions(new: Definitions) -> tuple[Extraction, ...]:
    by_name = {dataset.name: dataset for dataset in new.datasets}
    return tuple(
        Extraction(
            outputs=extractor_outputs(featureset, extractor),
            inputs=frozenset(extractor_inputs(featureset, extractor, by_name)),
            datasets=_looked_up(extractor),
        )
        for featureset in new.featuresets
        for extractor in featureset.extractors
    )


def _fed(
    extractions: Sequence[Extraction],
    *,
    datasets: Collection[str] = (),
    features: Collection[str] = (),
    causes: Mapping[str, ChangeCause],
) -> tuple[str, ...]:
    """Name the features that are computed from datasets or features, directly or through others.

    Features that are causes themselves, or the given ones, are left out.
    """
    reached = {*features}
    while True:
        more = {
            output
            for one in extractions
            if not one.datasets.isdisjoint(datasets) or not one.inputs.isdisjoint(reached)
            for output in one.outputs
        }
        if more <= reached:
            break
        reached |= more
    skipped = {*features, *causes}
    return tuple(
        output
        for one in extractions
        for output in one.outputs
        if output in reached and output not in skipped
    )


def _looked_up(extractor: Extractor) -> frozenset[str]:
    """Return the datasets that an extractor reads."""
    if isinstance(extractor, LookupExtractor):
        return frozenset({extractor.dataset})
    return frozenset(extractor.datasets if isinstance(extractor, CodeExtractor) else ())


def _reads(new: Definitions) -> dict[str, frozenset[str]]:
    """Return the datasets that each dataset is computed from directly, in their order."""
    return {
        dataset.name: frozenset(
            name for pipeline in dataset.pipelines for name in pipeline_reads(pipeline)
        )
        for dataset in new.datasets
    }


def _reached(reads: Mapping[str, frozenset[str]], name: str) -> tuple[str, ...]:
    """Return the names of a dataset and of all computed from it, in the definitions' order."""
    reached = {name}
    grown = True
    while grown:
        more = {one for one, inputs in reads.items() if not inputs.isdisjoint(reached)}
        grown = not more <= reached
        reached |= more
    return tuple(one for one in reads if one in reached)


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
