"""Featuresets as objects in authors' code."""

from types import FrameType
from typing import Final

import attrs
from typing_extensions import override

from narthex._analysis import columns_of
from narthex._analysis.checks.expectations import enforced_on_features
from narthex._authoring.error_collection import report
from narthex._authoring.source_locations import (
    ClassPlaces,
    author_frame,
    author_origin,
    class_places,
)
from narthex._base.origin import Origin
from narthex._ir.entities import CodeExtractor, Expectation, Extractor
from narthex._ir.entities import Feature as FeatureEntity
from narthex._ir.entities import Featureset as FeaturesetEntity
from narthex._ir.schema import Metadata
from narthex._ir.types import DataType, Null
from narthex._sdk.annotations import parse_annotation
from narthex._sdk.closure import OwnClass
from narthex._sdk.declare.env import parse_env, selected
from narthex._sdk.declare.expectations import ExpectationsCall, build_expectations
from narthex._sdk.declare.fields import annotations_of, check_name
from narthex._sdk.declare.metadata import (
    META_ATTRIBUTE,
    check_metadata,
    completed,
    default_owner,
    documentation_of,
    metadata_of,
    no_alerts,
    said_of,
)
from narthex._sdk.features.extractors import ExtractorCall, build_extractor
from narthex._sdk.features.features import MISSING, Feature, FeatureCall
from narthex._sdk.features.references import FeatureContext, build_reference
from narthex.errors import ArgumentInvalid, DefinitionError

RESERVED: Final = frozenset(
    {"fqn_", "fqn", "dtype", "featureset_name", "featureset", "extractor", "extractors", "features"}
)


@attrs.frozen
class Selectable:
    """An extractor with the envs that include it."""

    extractor: Extractor
    env: tuple[str, ...]


@attrs.define(kw_only=True, eq=False)
class DeclaredFeatureset:
    """The declarations of a featureset."""

    name: str
    origin: Origin
    features: tuple[FeatureEntity, ...] = ()
    extractors: tuple[Selectable, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    default_owner: str = ""
    documentation: str = ""
    broken: bool = False

    @property
    def types(self) -> dict[str, DataType]:
        """The features' types by name."""
        return {feature.name: feature.type for feature in self.features}


class Featureset:
    """A named group of features, as `@featureset` makes it.

    Its features are attributes: `Rider.age` is a `Feature`.
    """

    def __init__(self, declared: DeclaredFeatureset) -> None:
        self._declared = declared

    @property
    def features(self) -> list[Feature]:
        """All features, in the author's order."""
        return [self._feature(name) for name in self._declared.types]

    def fqn(self) -> str:
        """Return the featureset's name."""
        return self._declared.name

    def _feature(self, name: str) -> Feature:
        of = self._declared.types[name]
        return Feature(featureset=self._declared.name, name=name, dtype=of)

    def __getattr__(self, name: str) -> Feature:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._declared.types:
            return self._feature(name)
        if self._declared.broken:  # its errors are already reported; reading goes on
            return Feature(featureset=self._declared.name, name=name, dtype=Null(), is_broken=True)
        raise AttributeError(
            f"featureset `{self._declared.name}` has no feature `{name}`; it has "
            f"{', '.join(self._declared.types)}"
        )

    @override
    def __repr__(self) -> str:
        return f"<featureset {self._declared.name}>"


def declared_featureset(featureset: Featureset) -> DeclaredFeatureset:
    """Return the declarations of a featureset."""
    return featureset._declared  # noqa: SLF001 (kept out of the author's sight)


def featureset(cls: type) -> Featureset:
    """Declare a featureset: the class's annotations are its features.

    Raises:
        DefinitionErrors: All errors of the class, each with its file and line.
    """
    frame, origin = author_frame(), author_origin()
    if not isinstance(cls, type):
        raise ArgumentInvalid("`@featureset` decorates a class", origin=origin)
    places = class_places(cls.__name__, frame)
    built = DeclaredFeatureset(
        name=cls.__name__,
        origin=places.origin,
        default_owner=default_owner(frame),
        documentation=documentation_of(cls),
    )
    errors = _fill_features(cls, built, frame, places)
    if not errors:
        errors += _fill_references(cls, built, places)
    errors += _fill_extractors(cls, built)
    if not errors:
        errors += _fill_expectations(cls, built)
    errors += check_metadata(Metadata(owner=built.default_owner), origin=places.origin)
    found = Featureset(built)
    if META_ATTRIBUTE in cls.__dict__:
        setattr(found, META_ATTRIBUTE, metadata_of(cls))
        errors += check_metadata(metadata_of(cls), origin=places.origin)
    built.broken = bool(errors)
    report(errors)
    return found


def _fill_features(
    cls: type, built: DeclaredFeatureset, frame: FrameType | None, places: ClassPlaces
) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    features: list[FeatureEntity] = []
    for name, annotation in annotations_of(cls, frame).items():
        origin = places.of(name)
        errors += check_name(name, owner=built.name, origin=origin, reserved=RESERVED)
        said = _call_of(cls, name).said
        if not said.description and name in places.comments:
            said = attrs.evolve(said, description=places.comments[name])
        errors += check_metadata(said, origin=origin)
        try:
            of = parse_annotation(annotation)
        except DefinitionError as error:
            errors.append(error.located(origin, subject=f"feature `{name}`"))
            continue
        features.append(FeatureEntity(name=name, type=of, metadata=said, origin=origin))
    built.features = tuple(features)
    return errors


def _call_of(cls: type, name: str) -> FeatureCall:
    given = cls.__dict__.get(name)
    if isinstance(given, FeatureCall):
        given.own_name = name
        return given
    references = () if given is None else (given,)
    return FeatureCall(references, MISSING, None, None, name)


def _fill_references(
    cls: type, built: DeclaredFeatureset, places: ClassPlaces
) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    for feature in built.features:
        call = _call_of(cls, feature.name)
        context = FeatureContext(
            featureset=built.name,
            feature=feature.name,
            types=built.types,
            origin=places.of(feature.name),
        )
        try:
            env = parse_env(call.env, origin=context.origin)
            extractor = build_reference(call, context)
        except DefinitionError as error:
            errors.append(error)
            continue
        if extractor is not None:
            built.extractors = (*built.extractors, Selectable(extractor, env))
    return errors


def _fill_extractors(cls: type, built: DeclaredFeatureset) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    own = OwnClass(cls, built.types)
    for name, call in list(vars(cls).items()):
        if not isinstance(call, ExtractorCall) or said_of(call, call.function).deleted:
            continue
        said = said_of(call, call.function)
        errors += check_metadata(said, origin=call.origin)
        errors += no_alerts(said, f"extractor `{name}`", origin=call.origin)
        extractor, wrong = build_extractor(name, call, built.name, own)
        errors += wrong
        try:
            env = parse_env(call.env, origin=call.origin)
        except DefinitionError as error:
            errors.append(error)
            continue
        if extractor is not None:
            built.extractors = (*built.extractors, Selectable(extractor, env))
    return errors


def _fill_expectations(cls: type, built: DeclaredFeatureset) -> list[DefinitionError]:
    calls = [call for call in vars(cls).values() if isinstance(call, ExpectationsCall)]
    made, errors = build_expectations(calls, cls, built.types, of="featureset", member="feature")
    built.expectations = made
    for call in calls[:1]:
        errors += enforced_on_features(built.name, made, call.origin)
    return errors


def featureset_entity(
    featureset: Featureset, env: str | None = None, *, with_deleted: bool = False
) -> FeaturesetEntity:
    """Return the definition of a featureset in a commit, for one env.

    Features marked as deleted are left out, with the extractors that compute only such features,
    and with the expectations about them.
    """
    known = declared_featureset(featureset)
    said = completed(
        metadata_of(featureset), owner=known.default_owner, documentation=known.documentation
    )
    return FeaturesetEntity(
        name=known.name,
        features=tuple(
            feature for feature in known.features if with_deleted or not feature.metadata.deleted
        ),
        extractors=tuple(
            extractor.extractor
            for extractor in known.extractors
            if selected(extractor.env, env) and not _is_gone(extractor.extractor, known)
        ),
        metadata=said,
        origin=known.origin,
        expectations=tuple(
            one for one in known.expectations if with_deleted or not _is_about_deleted(one, known)
        ),
    )


def _is_about_deleted(expectation: Expectation, known: DeclaredFeatureset) -> bool:
    deleted = {feature.name for feature in known.features if feature.metadata.deleted}
    return not deleted.isdisjoint(columns_of(expectation))


def _is_gone(extractor: Extractor, known: DeclaredFeatureset) -> bool:
    deleted = {feature.name for feature in known.features if feature.metadata.deleted}
    names = extractor.outputs if isinstance(extractor, CodeExtractor) else (extractor.feature,)
    return deleted.issuperset(names)
