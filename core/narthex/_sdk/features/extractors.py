# mypy: disable-error-code="explicit-any"
"""Extractors: functions in a featureset's class that compute features at query time."""

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TypeVar, overload

import attrs

from narthex._authoring.source_locations import author_origin, function_origin
from narthex._base.origin import Origin
from narthex._ir.entities import CodeExtractor
from narthex._ir.node_schema import did_you_mean, listed
from narthex._sdk.closure import OwnClass, resolve
from narthex._sdk.datasets.datasets import Dataset, declared
from narthex._sdk.datasets.pipelines import inputs_of
from narthex._sdk.declare.env import Env
from narthex._sdk.features.features import Feature
from narthex.errors import (
    ArgumentInvalid,
    DefinitionError,
    DefinitionErrors,
    ExtractorInvalid,
    LookupImpossible,
)

OUTPUTS_ATTRIBUTE = "__narthex_outputs__"
_F = TypeVar("_F")


@attrs.define(eq=False, slots=False)
class ExtractorCall:
    """The result of `@extractor` on a function."""

    function: FunctionType
    deps: tuple[object, ...]
    version: object
    env: Env
    origin: Origin


@overload
def extractor(func: Callable[..., object]) -> ExtractorCall: ...
@overload
def extractor(
    func: None = None,
    deps: Sequence[Dataset] | None = None,
    version: int = 0,
    env: Env = None,
    depends_on: Sequence[Dataset] | None = None,
) -> Callable[[Callable[..., object]], ExtractorCall]: ...
def extractor(
    func: Callable[..., object] | None = None,
    deps: Sequence[Dataset] | None = None,
    version: int = 0,
    env: Env = None,
    depends_on: Sequence[Dataset] | None = None,
) -> ExtractorCall | Callable[[Callable[..., object]], ExtractorCall]:
    """Declare that a function computes features at query time.

    It is called as `f(cls, ts, in1, in2, …)` with series and returns a series, or a frame with a
    column for each output.

    Args:
        func: The function, if the decorator has no parentheses.
        deps: The datasets that it may look up.
        version: Raise it when the function computes another result.
        env: The envs that include it.
        depends_on: Another name for `deps`.

    Raises:
        ArgumentInvalid: Both `deps` and `depends_on` are set.
    """
    origin = author_origin()
    if deps and depends_on:
        raise ArgumentInvalid(
            "`deps` and `depends_on` are the same; one of them is enough", origin=origin
        )

    def declare(function: Callable[..., object]) -> ExtractorCall:
        if not isinstance(function, FunctionType):
            raise ArgumentInvalid("`@extractor` decorates a function", origin=origin)
        reads = tuple(deps or depends_on or ())
        return ExtractorCall(function, reads, version, env, function_origin(function))

    return declare if func is None else declare(func)


def outputs(*given: object) -> Callable[[_F], _F]:
    """Name the features that an extractor computes; by default, all of its featureset."""

    def name(function: _F) -> _F:
        setattr(function, OUTPUTS_ATTRIBUTE, given)
        return function

    return name


def build_extractor(
    name: str, call: ExtractorCall, featureset: str, own: OwnClass
) -> tuple[CodeExtractor | None, list[DefinitionError]]:
    """Read an extractor's inputs and outputs, and resolve its code.

    Args:
        name: Its name in the class.
        call: The record of the decorator.
        featureset: The featureset's name.
        own: The class, with its features.
    """
    errors: list[DefinitionError] = []
    features = tuple(own.fields)
    taken = _read_inputs(name, call, featureset, features, errors)
    made = _read_outputs(name, call, featureset, features, errors)
    errors += _signature_errors(name, call, len(taken))
    errors += _dependency_errors(name, call)
    version = call.version
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        errors.append(
            ExtractorInvalid(
                f"the version of extractor `{name}` is `{version!r}`; expected a whole number",
                origin=call.origin,
            )
        )
        version = 0
    try:
        code = resolve(call.function, what=f"extractor `{name}`", origin=call.origin, own=own)
    except DefinitionErrors as found:
        return None, [*errors, *found.exceptions_flat()]
    built = CodeExtractor(
        name=name,
        inputs=taken,
        outputs=made,
        code=code,
        version=version,
        datasets=tuple(declared(d).name for d in call.deps if isinstance(d, Dataset)),
        origin=call.origin,
    )
    return built, errors


def _read_inputs(
    name: str,
    call: ExtractorCall,
    featureset: str,
    features: tuple[str, ...],
    errors: list[DefinitionError],
) -> tuple[str, ...]:
    found: list[str] = []
    for given in inputs_of(call.function):
        match given:
            case Feature():
                found.append(given.fqn())
            case str() if "." in given:
                found.append(given)
            case str() if given in features:
                found.append(f"{featureset}.{given}")
            case _ if (own := _own_feature(given, features)) is not None:
                found.append(f"{featureset}.{own}")
            case _:
                errors.append(_not_a_feature(name, "input", given, featureset, features, call))
    return tuple(found)


def _read_outputs(
    name: str,
    call: ExtractorCall,
    featureset: str,
    features: tuple[str, ...],
    errors: list[DefinitionError],
) -> tuple[str, ...]:
    given = getattr(call.function, OUTPUTS_ATTRIBUTE, None)
    if not isinstance(given, tuple):
        return features
    found: list[str] = []
    for one in given:
        of = one.name if isinstance(one, Feature) and one.featureset == featureset else one
        own = of if isinstance(of, str) else _own_feature(of, features)
        if isinstance(own, str) and own.removeprefix(f"{featureset}.") in features:
            found.append(own.removeprefix(f"{featureset}."))
        else:
            errors.append(_not_a_feature(name, "output", one, featureset, features, call))
    return tuple(found)


def _own_feature(given: object, features: tuple[str, ...]) -> str | None:
    """Return the name of a feature of the class that is being created."""
    name = getattr(given, "own_name", None)
    return name if isinstance(name, str) and name in features else None


def _not_a_feature(
    name: str,
    role: str,
    given: object,
    featureset: str,
    features: tuple[str, ...],
    call: ExtractorCall,
) -> DefinitionError:
    shown = given.fqn() if isinstance(given, Feature) else str(given)
    return ExtractorInvalid(
        f"extractor `{name}` has the {role} `{shown}`, which is not a feature of "
        f"`{featureset}`; it has {listed(features)}",
        origin=call.origin,
        hint=did_you_mean(shown, features),
    )


def _signature_errors(name: str, call: ExtractorCall, taken: int) -> list[DefinitionError]:
    parameters = inspect.signature(call.function).parameters
    positional = [p for p in parameters.values() if p.kind is not p.VAR_POSITIONAL]
    has_rest = len(positional) < len(parameters)
    if len(positional) == taken + 2 or (has_rest and len(positional) <= taken + 2):
        return []
    return [
        ExtractorInvalid(
            f"extractor `{name}` has {len(positional)} parameters; with `cls`, `ts` and "
            f"{taken} inputs it must have {taken + 2}",
            origin=call.origin,
        )
    ]


def _dependency_errors(name: str, call: ExtractorCall) -> list[DefinitionError]:
    errors: list[DefinitionError] = []
    for dep in call.deps:
        if not isinstance(dep, Dataset):
            errors.append(
                ExtractorInvalid(
                    f"extractor `{name}` depends on `{dep!r}`, which is not a dataset",
                    origin=call.origin,
                )
            )
        elif not declared(dep).broken and declared(dep).index is None:
            errors.append(
                LookupImpossible(
                    f"extractor `{name}` looks up `{declared(dep).name}`, which has no index",
                    origin=call.origin,
                    hint="write `@dataset(index=True)` there",
                )
            )
    return errors
