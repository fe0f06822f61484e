# mypy: disable-error-code="explicit-any"
"""Decorators with Fennel's wider signatures."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

import attrs
import pandas as pd
from typing_extensions import override

from narthex import datasets, dtypes, featuresets, lib
from narthex._analysis.checks.expectations import invalid_expectation
from narthex._ir.types import Str
from narthex._sdk.datasets.datasets import declared
from narthex._sdk.declare.expectations import ExpectationsCall, Expected
from narthex._sdk.features.extractors import ExtractorCall
from narthex.compat.connectors import OmittedArgument
from narthex.compat.errors import FennelError, as_fennel_tells, told, told_above
from narthex.datasets import Dataset
from narthex.featuresets import Feature, Featureset, feature

__all__ = [
    "F",
    "dataset",
    "expectations",
    "extractor",
    "featureset",
    "includes",
    "index",
    "meta",
    "struct",
]

_Entity = TypeVar("_Entity", Dataset, Featureset)
_F = TypeVar("_F")

F = feature
struct = told(dtypes.struct)


def index(obj: Dataset | None = None, **given: Any) -> object:
    """Enable lookups of a keyed dataset.

    Raises:
        FennelError: The dataset or an argument is not one.
    """
    return told(datasets.index)(obj) if obj is not None else told_above(datasets.index)(**given)


def meta(*args: Any, **given: Any) -> Callable[[_F], _F]:
    """Declare an owner, a description and tags.

    Raises:
        FennelError: An argument is not valid.
    """
    if isinstance(given.get("tags"), str):
        raise FennelError("`tags` is a list of texts")
    made: Callable[[_F], _F] = told_above(lib.meta)(*args, **given)
    return made


def extractor(*args: Any, **given: Any) -> Any:
    """Declare that a function computes features at query time.

    Raises:
        FennelError: An argument is not valid.
    """
    made = told(featuresets.extractor)(*args, **given)
    return made if isinstance(made, ExtractorCall) else told(made)


def includes(*_: object) -> Callable[[_F], _F]:
    """Name functions that the decorated one calls.

    It has no effect: the names that a function uses are found in its source and carried with it.
    """
    return lambda function: function


def expectations(func: Callable[..., object] | None = None, *, version: int = 0) -> object:
    """Declare that a method of a dataset lists expectations; the version has no effect.

    Expectations that cannot be computed, such as one about an unknown column, are left out, with a
    warning: Fennel accepts them.

    Raises:
        FennelError: The method is not one.
    """
    del version  # A changed expectation is found by its content.

    def declare(function: Callable[..., object]) -> object:
        call = told(lib.expectations)(function)
        return attrs.evolve(call, function=_computable(call))

    return declare if func is None else declare(func)


def _computable(call: ExpectationsCall) -> Callable[[type], object]:
    """Return a function that lists the expectations that can be computed."""

    def listed(cls: type) -> object:
        found: object = call.function(cls)
        return list(_kept(cls, found)) if isinstance(found, list | tuple) else found

    return listed


def _kept(cls: type, found: Sequence[object]) -> Iterator[object]:
    columns = dict.fromkeys(inspect.get_annotations(cls), Str())
    for one in found:
        if isinstance(one, Expected):
            wrong = [*invalid_expectation(one.expectation, columns, one.origin)]
            for error in wrong:
                text = f"{error}; this expectation of `{cls.__name__}` is left out"
                warnings.warn(text, OmittedArgument, stacklevel=2)
            if wrong:
                continue
        yield one


@attrs.frozen(kw_only=True, eq=False)
class NamedFeature(Feature):
    """A feature that is also equal to its full name, as Fennel's were."""

    @override
    def __eq__(self, other: object) -> bool:
        return other == self.fqn() if isinstance(other, str) else super().__eq__(other)

    @override
    def __hash__(self) -> int:
        return hash(self.fqn())


def dataset(
    cls: type | None = None,
    version: int = 1,
    history: str | None = None,
    index: bool = False,
    offline: bool | None = None,
    online: bool | None = None,
) -> Dataset | Callable[[type], Dataset]:
    """Declare a dataset.

    Raises:
        FennelError: The class has an error.
    """

    def declare(of: type) -> Dataset:
        with as_fennel_tells():
            made = datasets.dataset(
                version=version, history=history, index=index, offline=offline, online=online
            )(of)
            declared(made).needs_no_index = True
        vars(made)["lookup"] = _lookup(made)
        return _named(made)

    return declare if cls is None else declare(cls)


def _lookup(of: Dataset) -> Callable[..., object]:
    """Return the lookup of a dataset with Fennel's errors, and Fennel's dtype of `found`."""
    look_up = told(of.lookup)

    @wraps(of.lookup)
    def lookup(ts: pd.Series, *args: Any, **given: Any) -> tuple[pd.DataFrame, pd.Series]:
        kind = str(getattr(ts, "dtype", type(ts)))
        if kind == "object" and not pd.api.types.is_datetime64_any_dtype(ts.infer_objects()):
            raise FennelError(
                f"Lookup for dataset `{of.fqn()}` expects a series of timestamps, found {kind}"
            )
        rows: Any
        found: Any
        rows, found = look_up(ts, *args, **given)
        instants = {
            name: f"datetime64[ns, {dtype.tz}]"
            for name, dtype in rows.dtypes.items()
            if isinstance(dtype, pd.DatetimeTZDtype)
        }
        return rows.astype(instants), found.astype(bool)

    return lookup


def featureset(cls: type) -> Featureset:
    """Declare a featureset; its extractors can be called as functions, as in unit tests.

    Raises:
        FennelError: The class has an error.
    """
    with as_fennel_tells():
        made = _named(featuresets.featureset(cls))
    for name, call in vars(cls).items():
        if isinstance(call, ExtractorCall):
            setattr(made, name, _callable(made, call))
    vars(made)["all"] = lambda: _features(made)
    vars(made)["original_cls"] = cls
    return made


def _named(entity: _Entity) -> _Entity:
    """Attach the names by which tests query an entity."""
    vars(entity)["__name__"] = vars(entity)["_name"] = entity.fqn()
    return entity


def _features(of: Featureset) -> Sequence[Feature]:
    return [NamedFeature(featureset=f.featureset, name=f.name, dtype=f.dtype) for f in of.features]


def _callable(of: Featureset, call: ExtractorCall) -> Callable[..., object]:
    names = {one.name: one.fqn() for one in of.features}

    @wraps(call.function)
    def extract(*args: object) -> object:
        made = call.function(*args)
        if hasattr(made, "columns"):
            return made.rename(columns=names)
        return made.rename(names.get(made.name, made.name))

    return extract
