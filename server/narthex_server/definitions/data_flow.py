"""The data flow between the definitions of a branch."""

from collections.abc import Iterator, Mapping
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
