"""Find the dataset or featureset that a route names."""

from collections.abc import Iterable
from typing import TypeVar

from narthex._ir import Dataset, Definitions, Featureset
from narthex_server.errors import Missing

_Entity = TypeVar("_Entity", Dataset, Featureset)


def dataset_named(definitions: Definitions, name: str) -> Dataset:
    """Return the dataset with a name.

    Raises:
        Missing: There is none.
    """
    return _named(definitions.datasets, name, "Dataset")


def featureset_named(definitions: Definitions, name: str) -> Featureset:
    """Return the featureset with a name.

    Raises:
        Missing: There is none.
    """
    return _named(definitions.featuresets, name, "Featureset")


def _named(entities: Iterable[_Entity], name: str, kind: str) -> _Entity:
    for one in entities:
        if one.name == name:
            return one
    raise Missing(f"{kind} `{name}` not found")
