"""The data flow between the definitions of a branch."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from narthex._analysis import pipeline_reads, source_id
from narthex._analysis.checks import extractor_inputs, extractor_outputs
from narthex._ir import (
    AliasExtractor,
    CodeExtractor,
    Dataset,
    Definitions,
    ExpressionExtractor,
    Extractor,
    Featureset,
    LookupExtractor,
)

EntityNode: TypeAlias = tuple[str, str]
"""The kind (`source`, `dataset` or `feature`) and the name of an entity."""


def flow(definitions: Definitions) -> Iterator[tuple[EntityNode, EntityNode]]:
    """Yield the lineage edges: sources to datasets, datasets to datasets and to features."""
    known = {dataset.name: dataset for dataset in definitions.datasets}
    for dataset in definitions.datasets:
        here = ("dataset", dataset.name)
        for source in dataset.sources:
            yield ("source", source_id(source)), here
        for pipeline in dataset.pipelines:
            for name in pipeline_reads(pipeline):
                yield ("dataset", name), here
    for featureset in definitions.featuresets:
        for extractor in featureset.extractors:
            outputs = extractor_outputs(featureset, extractor)
            read = _read_by(featureset, extractor, known)
            yield from ((start, ("feature", output)) for start in read for output in outputs)


def derived_entities(projects: Iterable[Definitions], datasets: Collection[str]) -> frozenset[str]:
    """Return the datasets and featuresets that may have values of these datasets' rows.

    They are those that are computed from the datasets, and the featuresets with the keys by which
    they are read.
    """
    edges = [edge for definitions in projects for edge in flow(definitions)]
    start: set[EntityNode] = {("dataset", name) for name in datasets}
    derived = _closure(start, edges)
    backwards = [(end, begin) for begin, end in edges if begin[0] == end[0] == "feature"]
    found = derived | _closure({node for node in derived if node[0] == "feature"}, backwards)
    return frozenset(name.partition(".")[0] for _, name in found)


def datasets_above(definitions: Definitions, dataset: str) -> frozenset[str]:
    """Return the datasets that a dataset is computed from, directly or not."""
    backwards = [(end, begin) for begin, end in flow(definitions)]
    found = _closure({("dataset", dataset)}, backwards)
    return frozenset(name for kind, name in found if kind == "dataset") - {dataset}


def known_entities(projects: Iterable[Definitions]) -> frozenset[str]:
    """Return the names of all datasets and featuresets."""
    found: set[str] = set()
    for definitions in projects:
        found |= {dataset.name for dataset in definitions.datasets}
        found |= {featureset.name for featureset in definitions.featuresets}
    return frozenset(found)


def _closure(
    start: Collection[EntityNode], edges: Collection[tuple[EntityNode, EntityNode]]
) -> frozenset[EntityNode]:
    found, new = set(start), set(start)
    while new:
        new = {end for begin, end in edges if begin in new} - found
        found |= new
    return frozenset(found)


def _read_by(
    featureset: Featureset, extractor: Extractor, known: Mapping[str, Dataset]
) -> Iterator[EntityNode]:
    match extractor:
        case LookupExtractor(dataset=dataset):
            yield "dataset", dataset
        case CodeExtractor(datasets=datasets):
            yield from (("dataset", name) for name in datasets)
        case AliasExtractor() | ExpressionExtractor():
            pass
    yield from (("feature", name) for name in extractor_inputs(featureset, extractor, known))
