"""The features that a featureset is computed from: given ones, computed ones, and lookups."""

from collections.abc import Iterator, Mapping

import attrs

from narthex._analysis.checks.features import extractor_inputs, extractor_outputs
from narthex._base.origin import NOWHERE
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    Definitions,
    Extractor,
    LookupExtractor,
)
from narthex._ir.types import DataType


@attrs.frozen(kw_only=True)
class GivenLookup:
    """A lookup of a dataset by given features.

    Attributes:
        given: The given features with its keys, in their order; empty if one of them is computed.
        is_list: Whether these are lists of keys.
    """

    dataset: str
    given: tuple[str, ...]
    is_list: bool


@attrs.frozen(kw_only=True)
class FeatureGraph:
    """All that the features of a featureset are computed from.

    Attributes:
        types: The types of all features by full name.
        extractors: The extractor of each feature that has one.
        inputs: The features that each of these needs.
        computed: The features with an extractor, which are needed, in the order of their names.
        given: The needed features without one.
    """

    types: Mapping[str, DataType]
    extractors: Mapping[str, Extractor]
    inputs: Mapping[str, tuple[str, ...]]
    computed: tuple[str, ...]
    given: tuple[str, ...]

    @property
    def versions(self) -> dict[str, int]:
        """The version of each feature with an extractor."""
        return {name: one.version for name, one in self.extractors.items()}

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets that are looked up."""
        found: dict[str, None] = {}
        for name in self.computed:
            found |= dict.fromkeys(datasets_of(self.extractors[name]))
        return tuple(found)

    @property
    def lookups(self) -> Iterator[GivenLookup]:
        """The lookups of datasets by columns."""
        for name in self.computed:
            extractor = self.extractors[name]
            if isinstance(extractor, LookupExtractor):
                given = [self._origin(key) for key in self.inputs[name]]
                yield GivenLookup(
                    dataset=extractor.dataset,
                    given=tuple(given) if set(given) <= set(self.given) else (),
                    is_list=extractor.is_list,
                )

    def _origin(self, name: str) -> str:
        """Return the feature of which another one is an alias, through all aliases."""
        extractor = self.extractors.get(name)
        return self._origin(extractor.source) if isinstance(extractor, AliasExtractor) else name


def feature_graph(definitions: Definitions, featureset: str) -> FeatureGraph:
    """Return the graph of a featureset."""
    plans = {one.name: one for one in definitions.datasets}
    extractors: dict[str, Extractor] = {}
    inputs: dict[str, tuple[str, ...]] = {}
    for one in definitions.featuresets:
        for extractor in one.extractors:
            for output in extractor_outputs(one, extractor):
                extractors[output] = extractor
                inputs[output] = extractor_inputs(one, extractor, plans)
    kinds = {
        f"{one.name}.{feature.name}": feature.type
        for one in definitions.featuresets
        for feature in one.features
    }
    waiting = [name for name in extractors if name.partition(".")[0] == featureset]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += inputs.get(name, ())
    return FeatureGraph(
        types=kinds,
        extractors=extractors,
        inputs=inputs,
        computed=tuple(sorted(name for name in needed if name in extractors)),
        given=tuple(sorted(name for name in needed if name not in extractors)),
    )


def datasets_of(extractor: Extractor) -> tuple[str, ...]:
    """Return the datasets that an extractor looks up."""
    match extractor:
        case LookupExtractor():
            return (extractor.dataset,)
        case CodeExtractor():
            return extractor.datasets
        case _:
            return ()


def is_same_lookup(first: Extractor, second: Extractor) -> bool:
    """Return whether two extractors look up the same column, with the same default."""
    if not isinstance(first, LookupExtractor) or not isinstance(second, LookupExtractor):
        return False
    return _meaning(first) == _meaning(second)


def is_same_graph(first: FeatureGraph, second: FeatureGraph) -> bool:
    """Return whether features are computed in the same way, as far as datasets are the same."""
    meanings = [
        {name: (graph.types[name], _meaning(graph.extractors[name])) for name in graph.computed}
        for graph in (first, second)
    ]
    return meanings[0] == meanings[1]


def _meaning(extractor: Extractor) -> Extractor:
    return attrs.evolve(extractor, version=0, origin=NOWHERE)
