"""A featureset as a class."""

from collections.abc import Iterable
from typing import assert_never

from narthex._definition_code.datasets import expectations_code, metadata_code
from narthex._definition_code.layout import (
    bare,
    call,
    described,
    indented,
    keywords,
    split_entry,
    structs_text,
    written,
)
from narthex._expr.render import render, render_value
from narthex._ir import (
    AliasExtractor,
    CodeExtractor,
    ExpressionExtractor,
    Extractor,
    Featureset,
    LookupExtractor,
)
from narthex._ir.entities import Feature
from narthex._ir.type_names import annotation
from narthex._ir.types import DataType, inner, unrestricted


def featureset_code(featureset: Featureset) -> str:
    """Write the class that declares a featureset, with the code of its extractors.

    What that code needs besides (imports, constants and functions) is above the class.
    """
    codes = [one for one in featureset.extractors if isinstance(one, CodeExtractor)]
    by_feature = {
        one.feature: one for one in featureset.extractors if not isinstance(one, CodeExtractor)
    }
    features = [_feature(one, by_feature.get(one.name)) for one in featureset.features]
    lines = [
        structs_text([one.type for one in featureset.features]),
        _needed(codes),
        metadata_code(featureset.metadata),
        "@featureset\n",
        f"class {featureset.name}:\n",
        indented(described(featureset.metadata.description)),
        *(indented(one) for one in features),
        *(indented(_extractor(one, featureset.name)) for one in codes),
        indented(expectations_code(featureset.expectations)),
    ]
    return "".join(lines)


def feature_code(featureset: Featureset, name: str) -> str:
    """Write the line or the extractor that computes one feature."""
    codes = [
        one
        for one in featureset.extractors
        if isinstance(one, CodeExtractor) and name in one.outputs
    ]
    if codes:
        return _needed(codes) + "".join(
            _extractor(one, featureset.name).lstrip("\n") for one in codes
        )
    found = [
        one
        for one in featureset.extractors
        if not isinstance(one, CodeExtractor) and one.feature == name
    ]
    (feature,) = [one for one in featureset.features if one.name == name]
    return _feature(feature, found[0] if found else None)


def _needed(codes: Iterable[CodeExtractor]) -> str:
    heads = dict.fromkeys(split_entry(one.code)[0].strip("\n") for one in codes)
    text = "\n\n".join(one for one in heads if one)
    return f"{text}\n\n\n" if text else ""


def _feature(feature: Feature, extractor: Extractor | None) -> str:
    said: list[str] = []
    match extractor:
        case None | CodeExtractor():
            pass
        case LookupExtractor(dataset=dataset, column=column):
            said.append(f"{dataset}.{column}")
            if extractor.has_default:
                said.append(
                    f"default={render_value(extractor.default, unrestricted(inner(feature.type)))}"
                )
        case AliasExtractor(source=source):
            said.append(source)
            if extractor.has_default:
                said.append(
                    f"default={render_value(extractor.default, unrestricted(inner(feature.type)))}"
                )
        case ExpressionExtractor(expression=expression):
            said.append(bare(render(expression)))
        case _:
            assert_never(extractor)
    if extractor is not None and extractor.version:
        said.append(f"version={extractor.version}")
    meta = _feature_metadata(feature)
    value = f" = {call('feature', said)}{meta}" if said or meta else ""
    return f"{feature.name}: {annotation(feature.type)}{value}\n"


def _default(extractor: LookupExtractor | AliasExtractor, of: DataType) -> list[str]:
    if not extractor.has_default:
        return []
    return [f"default={render_value(extractor.default, unrestricted(inner(of)))}"]


def _feature_metadata(feature: Feature) -> str:
    metadata = feature.metadata
    said: dict[str, object] = {"owner": metadata.owner} if metadata.owner else {}
    said |= {"description": metadata.description} if metadata.description else {}
    said |= {"tags": list(metadata.tags)} if metadata.tags else {}
    said |= {"deprecated": True} if metadata.deprecated else {}
    return f".{call('meta', keywords(said))}" if said else ""


def _extractor(one: CodeExtractor, featureset: str) -> str:
    own = f"{featureset}."
    said = [f"deps=[{', '.join(one.datasets)}]"] if one.datasets else []
    said += [f"version={one.version}"] if one.version else []
    head = f"@{call('extractor', said)}\n" if said else "@extractor\n"
    inputs = [
        written(name.removeprefix(own)) if name.startswith(own) else name for name in one.inputs
    ]
    taken = f"@{call('inputs', inputs)}\n" if inputs else ""
    outputs = f"@{call('outputs', [*map(written, one.outputs)])}\n"
    return f"\n{head}{taken}{outputs}{split_entry(one.code)[1].strip(chr(10))}\n"
