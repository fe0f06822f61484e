"""Features of a featureset's class, and what `feature(…)` says of them."""

from typing import Any, Self, TypeAlias

import attrs

from narthex._ir.schema import Metadata
from narthex._ir.types import DataType
from narthex._sdk.declare.env import Env
from narthex._sdk.declare.metadata import metadata

Reference: TypeAlias = object
"""A dataset's field, another featureset's feature, or an expression."""


class _Missing:
    """Says that no default was given; None is a default."""


MISSING = _Missing()


@attrs.define(eq=False)
class FeatureCall:
    """What `feature(…)` says; whether it can stand is decided when the class is made.

    Attributes:
        own_name: The feature's name, once its class is made.
    """

    references: tuple[Reference, ...]
    default: object
    version: int | None
    env: Env
    said: Metadata = attrs.field(factory=Metadata)
    own_name: str = ""

    def meta(
        self,
        owner: str = "",
        description: str = "",
        tags: list[str] | None = None,
        deprecated: bool = False,
        deleted: bool = False,
    ) -> Self:
        """Say who owns the feature, and what it is."""
        self.said = metadata(
            owner=owner, description=description, tags=tags, deprecated=deprecated, deleted=deleted
        )
        return self


def feature(  # type: ignore[explicit-any]
    *args: Reference, default: object = MISSING, version: int | None = None, env: Env = None
) -> Any:
    """Say where a feature comes from; it stands after the feature's annotation, whatever its type.

    `.meta(owner, description, tags, deprecated, deleted)` says more of it.

    Args:
        args: A dataset's field, which is looked up by the features named as the dataset's keys;
            another featureset's feature; or an expression over features of the same featureset.
            Nothing: the feature is given, or an extractor computes it.
        default: What stands in when the lookup finds nothing.
        version: Raised when the feature means something else from now on.
        env: The envs for which it is taken.
    """
    return FeatureCall(args, default, version, env)


@attrs.frozen(kw_only=True)
class Feature:
    """A feature, as `Featureset.name` gives it.

    Attributes:
        is_broken: Whether its featureset has mistakes, so that its type may not be known.
    """

    featureset: str
    name: str
    dtype: DataType
    is_broken: bool = attrs.field(default=False, eq=False, repr=False)

    def fqn(self) -> str:
        """Return the feature's full name, `Featureset.feature`."""
        return f"{self.featureset}.{self.name}"
