"""Find engines by name, so that a command can compare any two."""

from importlib import import_module

from narthex._ir import Definitions
from narthex._testing import InProcessCalls
from narthex_reference.conformance import EngineFactory
from narthex_reference.semantics.evaluator import Reference
from narthex_reference.worker_calls import WorkerCalls

REFERENCE = "reference"
"""The name of the reference engine."""

_CALL = WorkerCalls(InProcessCalls())


class UnknownEngineError(ValueError):
    """The name does not refer to an engine."""


def reference(definitions: Definitions) -> Reference:
    """Return the reference engine, which calls authors' code in this process."""
    return Reference(definitions, call=_CALL)


def engine_named(name: str) -> EngineFactory:
    """Return the factory of an engine: `reference`, or `module:attribute`.

    Raises:
        UnknownEngineError: The module does not exist, or does not have the callable.
    """
    if name == REFERENCE:
        return reference
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownEngineError(f"no engine is named `{name}`: {error}") from None
    if not callable(found):
        raise UnknownEngineError(f"`{name}` cannot be called with definitions")
    factory: EngineFactory = found
    return factory
