# mypy: disable-error-code="explicit-any"
"""Expectations about rows and answered features, with the names of Great Expectations."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import FunctionType
from typing import Any, Final, overload

import attrs

from narthex._analysis.checks.expectations import invalid_expectation
from narthex._authoring.source_locations import author_origin, failure_origin, function_origin
from narthex._base.origin import Origin
from narthex._base.times import render_instant, to_micros
from narthex._ir.entities import Action, Expectation, Severity
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.node_schema import listed
from narthex._ir.types import DataType
from narthex._sdk.declare.call_arguments import as_definition_error
from narthex.errors import DefinitionError, ExpectationInvalid, NotYetSupported

_SEVERITIES: Final = {severity.value: severity for severity in Severity}
_ACTIONS: Final = {action.value: action for action in Action}


@attrs.define(eq=False, slots=False)
class ExpectationsCall:
    """The result of `@expectations` on a function."""

    function: Callable[..., Any]
    origin: Origin


@attrs.frozen
class Expected:
    """One `expect_…` call, with its line."""

    expectation: Expectation
    origin: Origin


@overload
def expectations(func: Callable[..., object]) -> ExpectationsCall: ...
@overload
def expectations(
    func: None = None, *, version: int = 0
) -> Callable[[Callable[..., object]], ExpectationsCall]: ...
def expectations(
    func: Callable[..., object] | None = None, *, version: int = 0
) -> ExpectationsCall | Callable[[Callable[..., object]], ExpectationsCall]:
    """Declare that a method of a dataset or a featureset lists expectations about its rows.

    The rows of a featureset are the answers of logged queries, which an audit checks every hour.

    Rows that break an expectation are in the dataset, unless its `action` takes them out. Before
    readers flip to a commit, the expectations of its new and changed datasets are checked on their
    whole history; one of severity `critical` that is broken stops the commit.

    Args:
        func: The method, if the decorator has no parentheses.
        version: Refused: a changed expectation is found by its content.

    Raises:
        NotYetSupported: A version is given.
    """
    origin = author_origin()
    if version:
        raise NotYetSupported(
            "`version` of `@expectations` has no effect: changes are found by their content",
            origin=origin,
            hint="leave `version` out",
        )

    def declare(function: Callable[..., object]) -> ExpectationsCall:
        if not isinstance(function, FunctionType):
            raise ExpectationInvalid("`@expectations` decorates a method", origin=origin)
        return ExpectationsCall(function, function_origin(function))

    return declare if func is None else declare(func)


def build_expectations(
    calls: Sequence[ExpectationsCall],
    owner: type,
    columns: Mapping[str, DataType],
    *,
    of: str = "dataset",
    member: str = "field",
) -> tuple[tuple[Expectation, ...], list[DefinitionError]]:
    """Call the method once and check its expectations against the columns.

    Args:
        calls: The methods of the class that list expectations.
        owner: The class.
        columns: The types of its columns by name.
        of: The word for the entity in messages.
        member: The word for a column in messages.
    """
    if not calls:
        return (), []
    call, *more = calls
    errors: list[DefinitionError] = [
        ExpectationInvalid(f"{of} `{owner.__name__}` has expectations twice", origin=other.origin)
        for other in more
    ]
    try:
        given: object = call.function(owner)
    except Exception as error:  # noqa: BLE001 (the author's code: whatever it raises is a mistake)
        origin = failure_origin(error, fallback=call.origin)
        return (), [*errors, as_definition_error(error, what="`expectations`", origin=origin)]
    promised = given if isinstance(given, list | tuple) else [given]
    found: list[Expectation] = []
    for one in promised:
        if isinstance(one, Expected):
            errors += invalid_expectation(one.expectation, columns, one.origin, member=member)
            found.append(one.expectation)
        else:
            errors.append(
                ExpectationInvalid(
                    f"the expectations of `{owner.__name__}` list `{one!r}`; they want "
                    "`expect_…` calls",
                    origin=call.origin,
                )
            )
    return tuple(found), errors


def _literal(value: object, kind: str, origin: Origin) -> LiteralValue:
    match value:
        case list() | tuple():
            return tuple(_literal(item, kind, origin) for item in value)
        case set() | frozenset():
            return tuple(sorted((_literal(item, kind, origin) for item in value), key=repr))
        case dict():
            return json.dumps(value, sort_keys=True)
        case None | bool() | int() | float() | str() | bytes():
            return value
        case datetime():
            return render_instant(to_micros(value))
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            raise ExpectationInvalid(
                f"`{kind}` was given `{value!r}`, which is not a literal", origin=origin
            )


def expect(
    kind: str, arguments: dict[str, object], mostly: float | None, severity: str, action: str
) -> Expected:
    """Return an expectation by its name and arguments, without those that are None.

    A dict, such as a JSON schema, becomes JSON text; instants, days and decimals become text too.

    Raises:
        ExpectationInvalid: An argument is not a literal, `mostly` is not a share, or `severity` or
            `action` is unknown.
    """
    origin = author_origin()
    for name, given, known in (("severity", severity, _SEVERITIES), ("action", action, _ACTIONS)):
        if given not in known:
            raise ExpectationInvalid(
                f"`{name}` is {given!r}; expected {listed(known)}", origin=origin
            )
    if mostly is not None and not 0 <= mostly <= 1:
        raise ExpectationInvalid(f"`mostly` is {mostly}; expected 0 to 1", origin=origin)
    pairs = tuple(
        (name, _literal(value, kind, origin))
        for name, value in arguments.items()
        if value is not None
    )
    promised = Expectation(
        kind=kind,
        arguments=pairs,
        mostly=mostly,
        severity=_SEVERITIES[severity],
        action=_ACTIONS[action],
    )
    return Expected(promised, origin)
