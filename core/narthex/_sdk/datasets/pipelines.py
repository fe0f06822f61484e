# mypy: disable-error-code="explicit-any"
"""Pipelines: functions in a dataset's class that define how its rows are computed."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TypeVar, overload

import attrs

from narthex._analysis.schemas.pipelines import is_terminal
from narthex._authoring.source_locations import author_origin, failure_origin, function_origin
from narthex._base.origin import Origin
from narthex._ir.entities import Pipeline
from narthex._ir.node_schema import DatasetSchemaInfo, NodeSchema
from narthex._sdk.datasets.pipeline_trace import Trace
from narthex._sdk.datasets.steps import Rows, read_dataset
from narthex._sdk.declare.call_arguments import as_definition_error
from narthex._sdk.declare.env import Env, parse_env
from narthex._sdk.declare.metadata import check_metadata, no_alerts, said_of
from narthex.errors import (
    ArgumentInvalid,
    DefinitionError,
    DefinitionErrors,
    OperatorAfterTerminal,
    PipelineInvalid,
)

INPUTS_ATTRIBUTE = "__narthex_inputs__"
_F = TypeVar("_F")


@attrs.define(eq=False, slots=False)
class PipelineCall:
    """The result of `@pipeline` on a function; `@meta` above it may add metadata.

    Attributes:
        function: The function itself.
        env: The selector as written.
    """

    function: FunctionType
    env: Env
    origin: Origin


@overload
def pipeline(func: Callable[..., object]) -> PipelineCall: ...
@overload
def pipeline(
    func: None = None, *, env: Env = None
) -> Callable[[Callable[..., object]], PipelineCall]: ...
def pipeline(
    func: Callable[..., object] | None = None, env: Env = None
) -> PipelineCall | Callable[[Callable[..., object]], PipelineCall]:
    """Declare that a function computes the rows of its dataset.

    The function is called once, when the class is created, with symbolic rows of the datasets that
    `@inputs` names, and returns the last step.

    Args:
        func: The function, if the decorator has no parentheses.
        env: The envs that include the pipeline.
    """
    origin = author_origin()

    def declare(function: Callable[..., object]) -> PipelineCall:
        if not isinstance(function, FunctionType):
            raise ArgumentInvalid("`@pipeline` decorates a function", origin=origin)
        return PipelineCall(function, env, function_origin(function))

    return declare if func is None else declare(func)


def inputs(*given: object) -> Callable[[_F], _F]:
    """Name the datasets that a pipeline reads, or the features that an extractor takes."""

    def name(function: _F) -> _F:
        setattr(function, INPUTS_ATTRIBUTE, given)
        return function

    return name


def inputs_of(function: object) -> tuple[object, ...]:
    """Return the datasets that `@inputs` named; an empty tuple without `@inputs`."""
    given = getattr(function, INPUTS_ATTRIBUTE, ())
    return given if isinstance(given, tuple) else ()


@attrs.frozen(kw_only=True)
class BuiltPipeline:
    """A pipeline with its output schema and all of its errors.

    Attributes:
        pipeline: None if it could not be built.
        schema: None if steps were left out, so that the schema is unknown.
    """

    pipeline: Pipeline | None
    schema: NodeSchema | None
    errors: tuple[DefinitionError, ...]

    @property
    def terminal(self) -> bool:
        """Whether other pipelines cannot read its result."""
        return self.pipeline is not None and is_terminal(self.pipeline.terminal)


def build_pipeline(
    name: str, call: PipelineCall, owner: object, given: dict[str, DatasetSchemaInfo | None]
) -> BuiltPipeline:
    """Call a pipeline's function once with symbolic rows and record its steps.

    Args:
        name: Its name in the class.
        call: The record of the decorator.
        owner: The `cls` argument of the function: the dataset, whose fields are its attributes.
        given: The datasets of `@inputs` by name; None for one whose own definition has errors.
    """
    known = {key: info for key, info in given.items() if info is not None}
    trace = Trace(pipeline=name, inputs=known)
    errors = [*_signature_errors(name, call, len(given)), *_metadata_errors(call)]
    errors += [
        OperatorAfterTerminal(
            f"pipeline `{name}` reads `{info.name}`, which ends in an aggregate over continuous "
            "windows",
            origin=call.origin,
            hint=f"read the dataset that `{info.name}` is made from",
        )
        for info in known.values()
        if info.terminal
    ]
    if errors or len(known) < len(given):
        return BuiltPipeline(pipeline=None, schema=None, errors=tuple(errors))
    last = _run(name, call, owner, trace)
    errors += trace.errors
    if last is None:
        return BuiltPipeline(pipeline=None, schema=None, errors=tuple(errors))
    found, env = _built(name, call, tuple(known), last)
    if isinstance(env, DefinitionError):
        errors.append(env)
    schema = None if errors else last.node_schema
    return BuiltPipeline(pipeline=found, schema=schema, errors=tuple(errors))


def _built(
    name: str, call: PipelineCall, read: tuple[str, ...], last: Rows
) -> tuple[Pipeline, DefinitionError | None]:
    env: tuple[str, ...] = ()
    wrong: DefinitionError | None = None
    try:
        env = parse_env(call.env, origin=call.origin)
    except DefinitionError as error:
        wrong = error
    found = Pipeline(
        name=name,
        inputs=read,
        terminal=last.operator,
        env=env,
        metadata=said_of(call, call.function),
        origin=call.origin,
    )
    return found, wrong


def _run(name: str, call: PipelineCall, owner: object, trace: Trace) -> Rows | None:
    rows = [read_dataset(trace, dataset, call.origin) for dataset in trace.inputs]
    try:
        last = call.function(owner, *rows)
    except DefinitionErrors as errors:
        trace.errors += errors.exceptions_flat()
        return None
    except Exception as error:  # noqa: BLE001 (the author's code: whatever it raises is a mistake)
        origin = failure_origin(error, fallback=call.origin)
        trace.errors.append(
            as_definition_error(error, what=f"pipeline `{name}` raised", origin=origin)
        )
        return None
    if isinstance(last, Rows):
        return last
    found = "nothing" if last is None else f"`{type(last).__name__}`"
    trace.errors.append(
        PipelineInvalid(
            f"pipeline `{name}` returns {found}; expected the rows of its last step",
            origin=call.origin,
            hint="return the result of the last step",
        )
    )
    return None


def _signature_errors(name: str, call: PipelineCall, given: int) -> list[DefinitionError]:
    parameters = [*inspect.signature(call.function).parameters]
    errors: list[DefinitionError] = []
    if not given:
        errors.append(
            PipelineInvalid(
                f"pipeline `{name}` has no datasets to read",
                origin=call.origin,
                hint="name them with `@inputs(…)` below `@pipeline`",
            )
        )
    if not parameters or parameters[0] != "cls":
        found = f"`{parameters[0]}`" if parameters else "none"
        errors.append(
            PipelineInvalid(
                f"pipeline `{name}` has {found} as its first parameter; expected `cls`",
                origin=call.origin,
            )
        )
    elif given and len(parameters) - 1 != given:
        errors.append(
            PipelineInvalid(
                f"pipeline `{name}` has {len(parameters) - 1} parameters after `cls` and "
                f"{given} inputs",
                origin=call.origin,
            )
        )
    return errors


def _metadata_errors(call: PipelineCall) -> tuple[DefinitionError, ...]:
    said = said_of(call, call.function)
    found = check_metadata(said, origin=call.origin)
    return (*found, *no_alerts(said, f"pipeline `{call.function.__name__}`", origin=call.origin))
