"""The checks of featuresets: the references of extractors, their types, their defaults."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import assert_never

import attrs

from narthex._analysis.tolerance import is_tolerated
from narthex._expr.expression_types import misfit
from narthex._expr.typing import references
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    Dataset,
    Definitions,
    ExpressionExtractor,
    Extractor,
    Featureset,
    LookupExtractor,
)
from narthex._ir.literals import is_literal_of
from narthex._ir.node_schema import column_missing, did_you_mean
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, List, inner, optional, unrestricted
from narthex.errors import (
    DefinitionError,
    EntityMissing,
    ExtractorInvalid,
    FeatureExtractedTwice,
    FeatureInvalid,
    GraphCycle,
    LookupImpossible,
)


@attrs.frozen
class _KnownFeatures:
    datasets: Mapping[str, Dataset]
    featuresets: Mapping[str, Featureset]
    features: Mapping[str, DataType]


def feature_errors(definitions: Definitions) -> Iterator[DefinitionError]:
    """Return all errors of the featuresets of a commit."""
    known = _KnownFeatures(
        {dataset.name: dataset for dataset in definitions.datasets},
        {featureset.name: featureset for featureset in definitions.featuresets},
        {
            f"{featureset.name}.{feature.name}": feature.type
            for featureset in definitions.featuresets
            for feature in featureset.features
        },
    )
    for featureset in definitions.featuresets:
        yield from _twice(featureset)
        for extractor in featureset.extractors:
            yield from _extractor_errors(featureset, extractor, known)
    yield from _cycles(definitions.featuresets)


def extractor_inputs(
    featureset: Featureset, extractor: Extractor, datasets: Mapping[str, Dataset]
) -> tuple[str, ...]:
    """Return the features that an extractor needs, fully qualified, in order."""
    match extractor:
        case LookupExtractor():
            dataset = datasets.get(extractor.dataset)
            keys = dataset.schema.keys if dataset else ()
            return tuple(f"{featureset.name}.{key.name}" for key in keys)
        case AliasExtractor():
            return (extractor.source,)
        case ExpressionExtractor():
            return tuple(
                f"{featureset.name}.{name}" for name in sorted(references(extractor.expression))
            )
        case CodeExtractor():
            return extractor.inputs
        case _:
            assert_never(extractor)


def extractor_outputs(featureset: Featureset, extractor: Extractor) -> tuple[str, ...]:
    """Return the features that an extractor computes, fully qualified, in order."""
    names = extractor.outputs if isinstance(extractor, CodeExtractor) else (extractor.feature,)
    return tuple(f"{featureset.name}.{name}" for name in names)


def _twice(featureset: Featureset) -> Iterator[DefinitionError]:
    seen: set[str] = set()
    for extractor in featureset.extractors:
        for name in extractor_outputs(featureset, extractor):
            if name in seen:
                yield FeatureExtractedTwice(
                    f"two extractors compute feature `{name}`",
                    origin=extractor.origin,
                    hint="keep one, or set an `env` on each",
                )
            seen.add(name)


def _extractor_errors(
    featureset: Featureset, extractor: Extractor, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    missing = [
        name for name in extractor_outputs(featureset, extractor) if name not in known.features
    ]
    if missing:
        yield ExtractorInvalid(
            f"an extractor computes `{missing[0]}`, which is not a feature of `{featureset.name}`",
            origin=extractor.origin,
            hint=did_you_mean(missing[0], known.features),
        )
        return
    match extractor:
        case LookupExtractor():
            yield from _lookup_errors(featureset, extractor, known)
        case AliasExtractor():
            yield from _alias_errors(featureset, extractor, known)
        case ExpressionExtractor():
            yield from _expression_errors(featureset, extractor, known)
        case CodeExtractor():
            yield from _code_errors(featureset, extractor, known)
        case _:
            assert_never(extractor)


def _lookup_errors(
    featureset: Featureset, extractor: LookupExtractor, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    dataset = known.datasets.get(extractor.dataset)
    title = f"feature `{featureset.name}.{extractor.feature}`"
    if dataset is None:
        yield EntityMissing(
            f"{title} looks up dataset `{extractor.dataset}`, which is not in the commit",
            origin=extractor.origin,
            hint=f"add `{extractor.dataset}` to the commit",
        )
        return
    if not dataset.schema.keys or dataset.index is None:
        missing = "index" if dataset.schema.keys else "key"
        yield LookupImpossible(
            f"{title} looks up dataset `{dataset.name}`, which has no {missing}",
            origin=extractor.origin,
            hint=f"decorate `{dataset.name}` with `@index`, or `@dataset(index=True)`",
        )
    yield from _key_errors(featureset, extractor, dataset, known)
    yield from _value_errors(featureset, extractor, dataset, known)


def _key_errors(
    featureset: Featureset, extractor: LookupExtractor, dataset: Dataset, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    for key in dataset.schema.keys:
        found = known.features.get(f"{featureset.name}.{key.name}")
        if found is None:
            yield FeatureInvalid(
                f"feature `{featureset.name}.{extractor.feature}` needs the key `{key.name}` of "
                f"`{dataset.name}` as a feature of `{featureset.name}`",
                origin=extractor.origin,
                hint=f"add `{key.name}: {type_name(key.type)}` to `{featureset.name}`",
            )
        elif plain_key(found) != plain_key(List(key.type) if extractor.is_list else key.type):
            wanted = List(key.type) if extractor.is_list else key.type
            wrong = (
                f"feature `{featureset.name}.{key.name}` has type `{type_name(found)}`; as a key "
                f"of `{dataset.name}` it has type `{type_name(wanted)}`"
            )
            if not is_tolerated(wrong):
                yield FeatureInvalid(wrong, origin=extractor.origin)


def plain_key(of: DataType) -> DataType:
    """Return the type of a key, or of a list of keys, without its restrictions."""
    return List(unrestricted(of.of)) if isinstance(of, List) else unrestricted(of)


def _value_errors(
    featureset: Featureset, extractor: LookupExtractor, dataset: Dataset, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    columns = dataset.schema.columns
    declared = known.features[f"{featureset.name}.{extractor.feature}"]
    title = f"feature `{featureset.name}.{extractor.feature}`"
    if extractor.column not in columns:
        yield column_missing(
            extractor.column, columns, where=f"`{dataset.name}`", origin=extractor.origin
        )
        return
    column = columns[extractor.column]
    wanted = inner(column) if extractor.has_default else optional(column)
    given = List(wanted) if extractor.is_list else wanted
    if declared != given:
        yield FeatureInvalid(
            f"{title} has type `{type_name(declared)}`; the lookup of "
            f"`{dataset.name}.{extractor.column}` gives `{type_name(given)}`",
            origin=extractor.origin,
            hint=""
            if extractor.has_default
            else "a key may be missing from the index: set a default",
        )
    else:
        yield from _default_errors(title, extractor, wanted)


def _default_errors(
    title: str, extractor: LookupExtractor | AliasExtractor, wanted: DataType
) -> Iterator[DefinitionError]:
    if extractor.has_default and not is_literal_of(extractor.default, wanted):
        yield FeatureInvalid(
            f"{title} has the default `{extractor.default!r}`, which is not of type "
            f"`{type_name(wanted)}`",
            origin=extractor.origin,
        )


def _alias_errors(
    featureset: Featureset, extractor: AliasExtractor, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    name = f"{featureset.name}.{extractor.feature}"
    found = known.features.get(extractor.source)
    if found is None:
        yield _input_missing(name, extractor.source, extractor, known)
        return
    wanted = inner(found) if extractor.has_default else found
    if wanted != known.features[name]:
        yield FeatureInvalid(
            f"feature `{name}` has type `{type_name(known.features[name])}`; "
            f"`{extractor.source}` gives it `{type_name(wanted)}`",
            origin=extractor.origin,
        )
    else:
        yield from _default_errors(f"feature `{name}`", extractor, wanted)


def _expression_errors(
    featureset: Featureset, extractor: ExpressionExtractor, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    columns = {feature.name: feature.type for feature in featureset.features}
    name = f"{featureset.name}.{extractor.feature}"
    unknown = [ref for ref in sorted(references(extractor.expression)) if ref not in columns]
    if unknown:
        yield FeatureInvalid(
            f"feature `{name}` refers to `{unknown[0]}`, which is not a feature of "
            f"`{featureset.name}`",
            origin=extractor.origin,
            hint=did_you_mean(unknown[0], columns)
            or "an expression can refer to features of its own featureset only",
        )
        return
    wrong = misfit(extractor.expression, columns, known.features[name])
    if wrong is not None:
        yield FeatureInvalid(
            f"the expression of feature `{name}`: {wrong}", origin=extractor.origin
        )


def _code_errors(
    featureset: Featureset, extractor: CodeExtractor, known: _KnownFeatures
) -> Iterator[DefinitionError]:
    for name in extractor.inputs:
        if name not in known.features:
            yield _input_missing(f"{featureset.name}.{extractor.name}", name, extractor, known)
    for name in extractor.datasets:
        if name not in known.datasets:
            yield EntityMissing(
                f"extractor `{featureset.name}.{extractor.name}` looks up dataset `{name}`, which "
                "is not in the commit",
                origin=extractor.origin,
                hint=f"add `{name}` to the commit",
            )


def _input_missing(
    title: str, name: str, extractor: Extractor, known: _KnownFeatures
) -> DefinitionError:
    owner, _, _ = name.partition(".")
    if owner not in known.featuresets:
        return EntityMissing(
            f"`{title}` needs `{name}`, but featureset `{owner}` is not in the commit",
            origin=extractor.origin,
            hint=f"add `{owner}` to the commit",
        )
    return ExtractorInvalid(
        f"`{title}` needs `{name}`, which is not a feature",
        origin=extractor.origin,
        hint=did_you_mean(name, known.features),
    )


def _cycles(featuresets: tuple[Featureset, ...]) -> Iterator[DefinitionError]:
    needs: dict[str, tuple[str, ...]] = {}
    makers: dict[str, Extractor] = {}
    for featureset in featuresets:
        for extractor in featureset.extractors:
            inputs = extractor_inputs(featureset, extractor, {})
            for name in extractor_outputs(featureset, extractor):
                needs[name] = inputs
                makers[name] = extractor
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        path = " → ".join(f"`{name}`" for name in reversed(names))
        yield GraphCycle(
            f"features depend on each other in a cycle: {path}", origin=makers[names[0]].origin
        )
