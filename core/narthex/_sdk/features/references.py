"""The origin of a feature without an extractor function: a lookup, an alias, an expression."""

from collections.abc import Mapping

import attrs

from narthex._analysis.checks.features import plain_key
from narthex._analysis.tolerance import is_tolerated
from narthex._base.origin import Origin
from narthex._expr.expression_types import misfit
from narthex._ir.entities import AliasExtractor, ExpressionExtractor, Extractor, LookupExtractor
from narthex._ir.expression_nodes import LiteralValue, Node
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, List, inner, optional, unrestricted
from narthex._sdk.declare.expressions import node_of, type_of
from narthex._sdk.declare.fields import Field
from narthex._sdk.declare.literals import MisfitError, literal_of
from narthex._sdk.features.features import MISSING, Feature, FeatureCall
from narthex.errors import ExpressionTypeWrong, FeatureInvalid, LookupImpossible


@attrs.frozen(kw_only=True)
class FeatureContext:
    """The feature that is being declared.

    Attributes:
        types: All features of its featureset.
    """

    featureset: str
    feature: str
    types: Mapping[str, DataType]
    origin: Origin

    @property
    def type(self) -> DataType:
        """The feature's own type."""
        return self.types[self.feature]


def build_reference(call: FeatureCall, context: FeatureContext) -> Extractor | None:
    """Return the extractor that `feature(…)` declares; None without a reference.

    Raises:
        FeatureInvalid: The reference, the type or the default does not fit.
        LookupImpossible: The dataset of the lookup has no index.
        ExpressionTypeWrong: The expression does not have the feature's type.
    """
    match call.references:
        case ():
            if call.default is not MISSING:
                raise FeatureInvalid(
                    f"feature `{context.feature}` has a default but refers to nothing",
                    origin=context.origin,
                    hint="refer to a field of a dataset, `feature(Orders.total, default=0)`",
                )
            return None
        case (Field() as field,):
            return _lookup(field, call, context)
        case (Feature() as source,):
            return _alias(source, call, context)
        case (reference,):
            node = node_of(reference)
            if node is None:
                raise FeatureInvalid(
                    f"feature `{context.feature}` refers to `{reference!r}`; expected a field, "
                    "a feature or an expression",
                    origin=context.origin,
                )
            return _expression(node, type_of(reference), call, context)
        case _:
            raise FeatureInvalid(
                f"feature `{context.feature}` refers to {len(call.references)} things; it can "
                "refer to one",
                origin=context.origin,
            )


def _lookup(field: Field, call: FeatureCall, context: FeatureContext) -> Extractor | None:
    if field.is_broken:
        return None
    has_default = call.default is not MISSING
    wanted = inner(field.dtype) if has_default else optional(field.dtype)
    is_list = context.type == List(wanted)
    if not is_list:
        _check_type(wanted, f"`{field.fqn()}`", context, hint=_default_hint(field, context))
    _check_keys(field, context, is_list=is_list)
    return LookupExtractor(
        feature=context.feature,
        dataset=field.dataset,
        column=field.name,
        default=_default(call.default, wanted, context) if has_default else None,
        has_default=has_default,
        version=call.version or 0,
        origin=context.origin,
        is_list=is_list,
    )


def _check_keys(field: Field, context: FeatureContext, *, is_list: bool) -> None:
    if not field.is_indexed:
        raise LookupImpossible(
            f"feature `{context.feature}` looks up dataset `{field.dataset}`, which has no index",
            origin=context.origin,
            hint=f"decorate `{field.dataset}` with `@index`, or `@dataset(index=True)`",
        )
    for key in field.keys:
        found = context.types.get(key.name)
        wanted = List(key.type) if is_list else key.type
        if found is None:
            raise FeatureInvalid(
                f"feature `{context.feature}` needs the key `{key.name}` of `{field.dataset}` as a "
                f"feature of `{context.featureset}`",
                origin=context.origin,
                hint=f"add `{key.name}: {type_name(wanted)}` to `{context.featureset}`",
            )
        if plain_key(found) != plain_key(wanted):
            wrong = (
                f"feature `{key.name}` is of type `{type_name(found)}`; as a key of "
                f"`{field.dataset}` for `{context.feature}` it is of type `{type_name(wanted)}`"
            )
            if not is_tolerated(wrong):
                raise FeatureInvalid(wrong, origin=context.origin)


def _default(value: object, wanted: DataType, context: FeatureContext) -> LiteralValue:
    try:
        return literal_of(value, wanted)
    except MisfitError as error:
        raise FeatureInvalid(
            f"the default of feature `{context.feature}` does not fit: {error}",
            origin=context.origin,
        ) from None


def _default_hint(field: Field, context: FeatureContext) -> str:
    if unrestricted(context.type) == unrestricted(field.dtype):
        return f"write `Optional[{type_name(context.type)}]`, or give a `default`"
    return ""


def _alias(source: Feature, call: FeatureCall, context: FeatureContext) -> Extractor | None:
    if source.is_broken:
        return None
    has_default = call.default is not MISSING
    if has_default and source.dtype == inner(source.dtype):
        raise FeatureInvalid(
            f"feature `{context.feature}` has a default, but `{source.fqn()}` is never null",
            origin=context.origin,
            hint="leave the default out",
        )
    wanted = inner(source.dtype) if has_default else source.dtype
    _check_type(wanted, f"`{source.fqn()}`", context)
    return AliasExtractor(
        feature=context.feature,
        source=source.fqn(),
        version=call.version or 0,
        origin=context.origin,
        default=_default(call.default, wanted, context) if has_default else None,
        has_default=has_default,
    )


def _check_type(wanted: DataType, of: str, context: FeatureContext, *, hint: str = "") -> None:
    if unrestricted(inner(context.type)) == unrestricted(inner(wanted)) and (
        context.type == inner(context.type)
    ) == (wanted == inner(wanted)):
        return
    raise FeatureInvalid(
        f"feature `{context.feature}` is of type `{type_name(context.type)}`; {of} gives it "
        f"`{type_name(wanted)}`",
        origin=context.origin,
        hint=hint,
    )


def _expression(
    node: Node, said: DataType | None, call: FeatureCall, context: FeatureContext
) -> Extractor:
    if call.default is not MISSING:
        raise FeatureInvalid(
            f"feature `{context.feature}` is an expression and has a default",
            origin=context.origin,
            hint="use `.fillnull(…)` in the expression",
        )
    if said is not None:
        _check_type(said, "its `astype`", context)
    others = {name: of for name, of in context.types.items() if name != context.feature}
    wrong = misfit(node, others, context.type)
    if wrong is not None:
        raise ExpressionTypeWrong(
            f"the expression of feature `{context.feature}` is invalid: {wrong}",
            origin=context.origin,
        )
    return ExpressionExtractor(
        feature=context.feature,
        expression=node,
        version=call.version or 0,
        origin=context.origin,
    )
