"""Features of a featureset's class, and their `feature(…)` calls."""

from typing import Any, TypeAlias

import attrs

from narthex._ir.types import DataType
from narthex._sdk.declare.env import Env
from narthex._sdk.declare.metadata import Described

Reference: TypeAlias = object
"""A dataset's field, another featureset's feature, or an expression."""


class _Missing:
    """Marks a missing default, as None is a valid default."""


MISSING = _Missing()


@attrs.define(eq=False)
class FeatureCall(Described):
    """A `feature(…)` call, which is validated when the class is created.

    Attributes:
        own_name: The feature's name, once its class exists.
    """

    references: tuple[Reference, ...]
    default: object
    version: int | None
    env: Env
    own_name: str = ""


def feature(  # type: ignore[explicit-any]
    *args: Reference, default: object = MISSING, version: int | None = None, env: Env = None
) -> Any:
    """Set the origin of a feature; put it after the feature's annotation, whatever its type.

    `.meta(owner, description, tags, deprecated, deleted)` adds metadata.

    Args:
        args: A dataset's field, which is looked up by the features named as the dataset's keys;
            another featureset's feature; or an expression over features of the same featureset.
            Without it, the feature is an input, or an extractor computes it.
        default: The value if the lookup finds no row.
        version: Raise it when the meaning of the feature changes.
        env: The envs that include it.
    """
    return FeatureCall(args, default, version, env)


@attrs.frozen(kw_only=True)
class Feature:
    """A feature, the value of `Featureset.name`.

    Attributes:
        is_broken: Whether its featureset has errors, so that its type may be unknown.
    """

    featureset: str
    name: str
    dtype: DataType
    is_broken: bool = attrs.field(default=False, eq=False, repr=False)

    def fqn(self) -> str:
        """Return the feature's full name, `Featureset.feature`."""
        return f"{self.featureset}.{self.name}"
