"""The inputs and errors of a pipeline while its function runs."""

from collections.abc import Callable, Iterable
from typing import TypeVar, assert_never

import attrs

from narthex._base.origin import Origin
from narthex._base.times import DurationError
from narthex._ir.node_schema import DatasetSchemaInfo
from narthex.errors import DefinitionError, DefinitionErrors, DurationInvalid

_T = TypeVar("_T")
_I = TypeVar("_I")


@attrs.define
class Trace:
    """The state of a pipeline while its function runs.

    Attributes:
        inputs: The datasets that it may read.
        errors: All errors so far.
    """

    pipeline: str
    inputs: dict[str, DatasetSchemaInfo]
    errors: list[DefinitionError] = attrs.field(factory=list)

    def found(self, errors: Iterable[DefinitionError]) -> None:
        """Add errors, each once."""
        known = {error.render() for error in self.errors}
        self.errors += [error for error in errors if error.render() not in known]

    def read(self, read: Callable[[], _T], origin: Origin, *, instead: _I) -> _T | _I:
        """Read a part of a call; if that fails, add its errors and return `instead`."""
        try:
            return read()
        except (DefinitionError, DefinitionErrors, DurationError) as error:
            self.found(_mistakes(error, origin))
            return instead


def _mistakes(
    error: DefinitionError | DefinitionErrors | DurationError, origin: Origin
) -> tuple[DefinitionError, ...]:
    match error:
        case DefinitionErrors():
            return error.exceptions_flat()
        case DefinitionError():
            return (error.located(origin),)
        case DurationError():
            return (DurationInvalid(str(error), origin=origin),)
        case _:
            assert_never(error)
