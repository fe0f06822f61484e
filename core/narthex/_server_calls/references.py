"""Features and datasets as arguments of calls: objects or names."""

from collections.abc import Sequence
from typing import TypeAlias

from narthex._ir.types import DataType
from narthex._sdk.datasets.datasets import Dataset
from narthex._sdk.features.features import Feature
from narthex._sdk.features.featuresets import Featureset
from narthex.errors import ArgumentsUnfit

Output: TypeAlias = Feature | Featureset | str


def input_names(inputs: Sequence[object]) -> list[str]:
    """Return the full names of input features.

    Raises:
        ArgumentsUnfit: One of them is a whole featureset, or is not a feature.
    """
    found: list[str] = []
    for given in inputs:
        match given:
            case Feature():
                found.append(given.fqn())
            case str() if "." in given:
                found.append(given)
            case Featureset():
                names = ", ".join(f"`{feature.fqn()}`" for feature in given.features)
                raise ArgumentsUnfit(
                    f"featureset `{given.fqn()}` is an input; inputs are features",
                    hint=f"list those that you give: {names}",
                )
            case _:
                raise ArgumentsUnfit(
                    f"input `{given!r}` is not a feature",
                    hint="write `Featureset.feature`, or its full name as text",
                )
    return found


def output_names(outputs: Sequence[object]) -> list[str]:
    """Return the full names of features, and the names of whole featuresets.

    Raises:
        ArgumentsUnfit: One of them is neither a feature nor a featureset.
    """
    found: list[str] = []
    for given in outputs:
        match given:
            case Feature() | Featureset():
                found.append(given.fqn())
            case str():
                found.append(given)
            case _:
                raise ArgumentsUnfit(f"output `{given!r}` is neither feature nor featureset")
    return found


def known_types(outputs: Sequence[object]) -> dict[str, DataType]:
    """Return the types of features that were passed as objects, by full name."""
    features = [
        feature
        for given in outputs
        for feature in (
            given.features
            if isinstance(given, Featureset)
            else [given]
            if isinstance(given, Feature)
            else []
        )
    ]
    return {feature.fqn(): feature.dtype for feature in features}


def dataset_name(dataset: Dataset | type | str) -> str:
    """Return a dataset's name.

    Type checkers see a class below `@dataset` as a class, so the parameter accepts one.

    Raises:
        ArgumentsUnfit: It is a class without `@dataset`.
    """
    if isinstance(dataset, Dataset):
        return dataset.fqn()
    if isinstance(dataset, type):
        raise ArgumentsUnfit(
            f"`{dataset.__name__}` is not a dataset", hint="put `@dataset` above its class"
        )
    return dataset


def featureset_name(featureset: Featureset | str) -> str:
    """Return a featureset's name."""
    return featureset.fqn() if isinstance(featureset, Featureset) else featureset


def dataset_types(dataset: Dataset | type | str) -> dict[str, DataType]:
    """Return a dataset's types by field; none if only its name is known."""
    if isinstance(dataset, Dataset):
        return {field.name: field.dtype for field in dataset.fields}
    return {}
