"""Featuresets and their extractors from the messages of Fennel's client."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from narthex._authoring.error_collection import Reader
from narthex._base.origin import Origin
from narthex._ir.entities import (
    AliasExtractor,
    CodeExtractor,
    ExpressionExtractor,
    Extractor,
    Feature,
    Featureset,
    LookupExtractor,
)
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.schema import Metadata
from narthex._ir.types import DataType, List
from narthex.compat.wire.code import CodeScope, OwnCode, user_code
from narthex.compat.wire.commit_messages import (
    ExtractorMessage,
    FeatureMessage,
    FeaturesetMessage,
)
from narthex.compat.wire.expressions import expression_of
from narthex.compat.wire.schema_messages import MetadataMessage
from narthex.compat.wire.types import data_type, literal_of_json
from narthex.errors import DefinitionError, ExtractorInvalid

_NO_DEFAULT: Final = frozenset({"", "null"})


@attrs.frozen(kw_only=True)
class _Featureset:
    """The definitions beside an extractor."""

    name: str
    types: Mapping[str, DataType]
    class_text: str
    scope: CodeScope

    def origin(self, extractor: str) -> Origin:
        """Return the place of an extractor, for messages."""
        return Origin(file=f"{self.name}.{extractor}", line=0)


def metadata_of_message(message: MetadataMessage) -> Metadata:
    """Return the metadata of an entity."""
    return Metadata(
        owner=message.owner,
        description=message.description,
        tags=message.tags,
        deprecated=message.deprecated,
        deleted=message.deleted,
    )


def featureset_of(
    message: FeaturesetMessage,
    features: Sequence[FeatureMessage],
    extractors: Sequence[ExtractorMessage],
    scope: CodeScope,
) -> tuple[Featureset, list[DefinitionError]]:
    """Return a featureset with the extractors that could be read, and the errors of the others.

    Extractors that compute only features marked as deleted are left out.
    """
    reader = Reader()
    origin = Origin(file=message.name, line=0)
    made = tuple(
        Feature(
            name=feature.name,
            type=data_type(feature.type),
            metadata=metadata_of_message(feature.metadata),
            origin=origin,
        )
        for feature in features
    )
    own = _Featureset(
        name=message.name,
        types={one.name: one.type for one in made},
        class_text=message.code.text,
        scope=scope,
    )
    deleted = {one.name for one in made if one.metadata.deleted}
    read = [
        reader.read(lambda one=extractor: _extractor(one, own))  # type: ignore[misc]
        for extractor in extractors
        if not deleted.issuperset(extractor.features)
    ]
    found = Featureset(
        name=message.name,
        features=made,
        extractors=tuple(one for one in read if one is not None),
        metadata=metadata_of_message(message.metadata),
        origin=origin,
    )
    return found, reader.errors


def _extractor(message: ExtractorMessage, own: _Featureset) -> Extractor:
    """Return an extractor.

    Raises:
        DefinitionError: The message does not describe one.
    """
    origin = own.origin(message.name)
    unknown = [name for name in message.features if name not in own.types]
    if not message.features or unknown or not 0 <= message.kind < len(_KINDS):
        raise ExtractorInvalid(
            f"extractor `{message.name}` of kind {message.kind} computes "
            f"{', '.join(message.features) or 'nothing'}; expected features of `{own.name}`",
            origin=origin,
        )
    try:
        return _KINDS[message.kind](message, own)
    except DefinitionError as error:
        raise error.located(origin, subject=f"feature `{message.features[0]}`") from None


def _code(message: ExtractorMessage, own: _Featureset) -> Extractor:
    if message.code is None:
        raise ExtractorInvalid(f"extractor `{message.name}` has no code")
    origin = own.origin(message.name)
    place = OwnCode(
        what=f"extractor `{message.name}` of `{own.name}`",
        origin=origin,
        members=frozenset(own.types),
        class_text=own.class_text,
        takes_class=True,
    )
    return CodeExtractor(
        name=message.name,
        inputs=_inputs(message),
        outputs=message.features,
        code=user_code(message.code, own.scope, place),
        datasets=message.datasets,
        version=message.version,
        origin=origin,
    )


def _inputs(message: ExtractorMessage) -> tuple[str, ...]:
    return tuple(f"{one.feature.featureset}.{one.feature.name}" for one in message.inputs)


def _lookup(message: ExtractorMessage, own: _Featureset, *, is_list: bool = False) -> Extractor:
    feature, found = message.features[0], message.lookup
    if found is None or len(message.datasets) != 1:
        raise ExtractorInvalid(f"extractor `{message.name}` looks nothing up")
    of = own.types[feature]
    wanted = of.of if is_list and isinstance(of, List) else of
    return LookupExtractor(
        feature=feature,
        dataset=message.datasets[0],
        column=found.field.name,
        default=_default(found.default, wanted),
        has_default=found.default not in _NO_DEFAULT,
        version=message.version,
        origin=own.origin(feature),
        is_list=is_list,
    )


def _list_lookup(message: ExtractorMessage, own: _Featureset) -> Extractor:
    return _lookup(message, own, is_list=True)


def _alias(message: ExtractorMessage, own: _Featureset) -> Extractor:
    feature, inputs = message.features[0], _inputs(message)
    if len(inputs) != 1:
        raise ExtractorInvalid(f"extractor `{message.name}` is an alias of {len(inputs)} features")
    default = "" if message.alias is None else message.alias.default
    return AliasExtractor(
        feature=feature,
        source=inputs[0],
        version=message.version,
        origin=own.origin(feature),
        default=_default(default, own.types[feature]),
        has_default=default not in _NO_DEFAULT,
    )


def _expression(message: ExtractorMessage, own: _Featureset) -> Extractor:
    feature = message.features[0]
    if message.expression is None:
        raise ExtractorInvalid(f"extractor `{message.name}` has no expression")
    return ExpressionExtractor(
        feature=feature,
        expression=expression_of(message.expression),
        version=message.version,
        origin=own.origin(feature),
    )


def _default(text: str, of: DataType) -> LiteralValue:
    return None if text in _NO_DEFAULT else literal_of_json(text, of)


_KINDS: Final[Sequence[Callable[[ExtractorMessage, _Featureset], Extractor]]] = (
    _code,
    _lookup,
    _alias,
    _expression,
    _list_lookup,
)
