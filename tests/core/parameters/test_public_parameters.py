"""No public parameter of a definition does nothing: it changes what runs, or it is refused by name.

The calls and their parameters come from the public modules themselves, so that a new one without
an example fails here.
"""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pytest

from docs.public_api import entries
from narthex._analysis.graph import check
from narthex._base.canonical import encode
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.capability import not_carried_out
from narthex._ir.entities import Definitions
from narthex._ir.schema import Metadata
from narthex.errors import DefinitionError, DefinitionErrors
from tests.cases import every
from tests.core.parameters.catalog import EXAMPLES, example_of
from tests.core.parameters.examples import Call, Change, Example

MODULES: Final = (
    *("narthex.datasets", "narthex.featuresets", "narthex.connectors"),
    *("narthex.dtypes", "narthex.lib", "narthex.integrations.aws"),
)
"""The modules with which authors define; `narthex.expr` is covered by the corpus of expressions."""

DECORATED: Final = frozenset({"cls", "func", "obj"})
"""The parameter that is the decorated class or function itself."""

NOT_OF_DEFINITIONS: Final[Mapping[str, str]] = {
    "narthex.datasets.Dataset.lookup": "reads a dataset inside an extractor",
    "narthex.datasets.Dataset.fqn": "returns a name",
    "narthex.datasets.Field.fqn": "returns a name",
    "narthex.datasets.Rows.schema": "returns the columns of a step",
    "narthex.featuresets.Feature.fqn": "returns a name",
    "narthex.featuresets.Featureset.fqn": "returns a name",
    "narthex.dtypes.Embedding": "is a type without a call",
    "narthex.dtypes.Window.expr": "makes an expression of a struct's members",
    "narthex.dtypes.Window.zip": "makes an expression of a struct's members",
    "narthex.dtypes.Window.as_json": "returns a value",
    "narthex.connectors.S3.get": "is incomplete until a server resolves it, as its role shows",
    "narthex.lib.DataFile.open": "reads a file inside author code",
    "narthex.lib.DataFile.read_bytes": "reads a file inside author code",
    "narthex.lib.DataFile.read_text": "reads a file inside author code",
    "narthex.lib.bucketize": "computes a window from an instant",
    "narthex.lib.secrets.get": "reads a secret inside author code",
}
"""Public calls that are not parts of a definition, with what they are."""

CATALOG_ONLY: Final = frozenset({"owner", "description", "tags", "deprecated"})
"""Parameters of `meta` that describe an entity: the catalog and the policy use them, not jobs."""


@attrs.frozen
class Parameter:
    """One parameter of one public call."""

    call: str
    name: str

    def __str__(self) -> str:
        return f"{self.call}({self.name})"


def _calls() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield every public call of the modules, with its name."""
    for module in MODULES:
        found = importlib.import_module(module)
        for entry in entries(module):
            value = getattr(found, entry.name)
            if entry.parameters is not None:
                yield f"{module}.{entry.name}", value
            for member in entry.members:
                if member.parameters is not None:
                    yield f"{module}.{entry.name}.{member.name}", getattr(value, member.name)


def _parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return found


@functools.cache
def public_calls() -> Mapping[str, Callable[..., object]]:
    return {name: call for name, call in _calls() if name not in NOT_OF_DEFINITIONS}


REFUSED: Final = [name for name, example in EXAMPLES.items() if example.refused]
"""Calls that the platform refuses whatever their arguments are."""


def public_parameters() -> list[Parameter]:
    return [
        Parameter(name, parameter)
        for name, call in public_calls().items()
        for parameter in _parameters(call)
        if parameter not in DECORATED and name not in REFUSED
    ]


def _calling(arguments: Mapping[str, object]) -> Call:
    """Return what calls a function with arguments by the names of its parameters."""

    def call(function: Callable[..., Any]) -> Any:
        positional: list[object] = []
        named: dict[str, object] = {}
        known = _parameters(function)
        for name, parameter in known.items():
            if name not in arguments:
                continue
            value: Any = arguments[name]
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    positional += value
                case inspect.Parameter.VAR_KEYWORD:
                    named |= value
                case _:
                    named[name] = value
        return function(*positional, **named)

    return call


def _built(example: Example, arguments: Mapping[str, object], result: object) -> Definitions:
    call = _calling(arguments)
    return example.build(call) if example.result is None else example.build(call, result)


def _errors(definitions: Definitions) -> tuple[DefinitionError, ...]:
    return (*check(definitions), *not_carried_out(definitions))


def _runs(definitions: Definitions) -> bytes:
    """Encode all that a deployed definition runs by, without names and descriptions."""
    blueprint = compile_blueprint(definitions)
    return encode(
        (
            tuple((one.kind, one.fingerprint, one.spec) for one in blueprint.assets),
            blueprint.datasets,
            tuple(
                (one.expectations, one.metadata.alerts, one.index) for one in definitions.datasets
            ),
            definitions.featuresets,
        )
    )


@every("parameter", public_parameters)
def test_a_public_parameter_changes_what_runs_or_is_refused_by_name(parameter: Parameter) -> None:
    example = example_of(parameter.call, _parameters(public_calls()[parameter.call]))
    change = example.change(parameter.name)
    before = {**example.base, **change.before}
    without = _built(example, before, example.result)
    assert _errors(without) == ()

    after = {**before, **change.beside, parameter.name: change.value}
    made, errors = _tried(example, after, change.result or example.result)

    if made is None or errors:
        assert any(_is_about(error, parameter.name, change) for error in errors), errors
    elif parameter.name in CATALOG_ONLY:
        assert _described(made) != _described(without)
    else:
        assert _runs(made) != _runs(without)


def _tried(
    example: Example, arguments: Mapping[str, object], result: object
) -> tuple[Definitions | None, Sequence[BaseException]]:
    """Return the definitions, unless they cannot be made, and all errors of a commit of them."""
    try:
        made = _built(example, arguments, result)
    except DefinitionErrors as refused:
        return None, refused.exceptions
    except DefinitionError as refused:
        return None, (refused,)
    return made, _errors(made)


def _described(definitions: Definitions) -> list[Metadata]:
    return [one.metadata for one in definitions.datasets]


def _is_about(error: BaseException, parameter: str, change: Change) -> bool:
    """Whether an error has a place, and names the parameter or its value."""
    text = str(error)
    said = change.says or f"`{parameter}"
    return "-->" in text and (said in text or f"`{change.value!r}`" in text)


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_of_which_no_use_is_supported_is_refused_by_name(name: str) -> None:
    example = EXAMPLES[name]

    _, errors = _tried(example, example.base, example.result)

    (refused,) = errors
    assert example.refused in str(refused)
    assert "-->" in str(refused)


def test_every_example_is_of_a_public_call() -> None:
    assert EXAMPLES.keys() - public_calls().keys() == set()
    assert NOT_OF_DEFINITIONS.keys() - {name for name, _ in _calls()} == set()


def test_every_changed_parameter_exists() -> None:
    unknown = [
        f"{name}({parameter})"
        for name, example in EXAMPLES.items()
        for parameter in example.changes
        if parameter not in _parameters(public_calls()[name])
    ]

    assert unknown == []
