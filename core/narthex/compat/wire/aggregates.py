# mypy: disable-error-code="explicit-any"
"""Windows and aggregates from the messages of Fennel's client."""

from collections.abc import Callable, Mapping
from decimal import Decimal as PythonDecimal
from typing import Any, Final

from narthex._ir import aggregate_specs as specs
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.types import DataType, Decimal, Float, inner, unrestricted
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window
from narthex.compat.wire.fields import choice_of
from narthex.compat.wire.pipeline_messages import (
    CountMessage,
    DefaultedMessage,
    ListedMessage,
    QuantileMessage,
    SpecMessage,
    WindowMessage,
)

SECOND_US: Final = 1_000_000

_WINDOWS: Final[Mapping[str, Callable[[Any], Window]]] = {
    "sliding": lambda part: Continuous(part.duration.micros),
    "forever": lambda _: Continuous(None),
    "session": lambda part: Session(part.gap.micros),
    "tumbling": lambda part: Tumbling(part.duration.micros, part.lookback.micros),
    "hopping": lambda part: Hopping(part.duration.micros, part.stride.micros, part.lookback.micros),
    "forever_hopping": lambda part: Hopping(None, part.stride.micros, part.lookback.micros),
}


def window_of(message: WindowMessage) -> Window:
    """Return the window that a message describes.

    Raises:
        RecordNotUnderstood: It describes none.
    """
    name, part = choice_of(message)
    return _WINDOWS[name](part)


def spec_of(message: SpecMessage, columns: Mapping[str, DataType]) -> AggregateSpec:
    """Return the aggregate that a message describes.

    Args:
        message: The message; the client sends each default as a float.
        columns: The columns of its input, by which defaults are typed.

    Raises:
        RecordNotUnderstood: It describes none.
    """
    name, part = choice_of(message)
    common = {"into": part.into, "window": window_of(part.window)}
    if isinstance(part, CountMessage):
        return specs.Count(
            **common,
            of=part.of or None,
            unique=part.unique,
            approx=part.approx,
            dropnull=part.dropnull,
        )
    return _of_column(name, part, columns, {**common, "of": part.of})


def _of_column(
    name: str, part: Any, columns: Mapping[str, DataType], common: Mapping[str, Any]
) -> AggregateSpec:
    match part:
        case DefaultedMessage():
            return _with_default(name, part, columns.get(part.of), common)
        case ListedMessage(limit=limit, dedup=dedup, dropnull=dropnull):
            kind = specs.FirstK if name == "first_k" else specs.LastK
            return kind(**common, limit=limit, dedup=dedup, dropnull=dropnull)
        case QuantileMessage(p=p, default=default, approx=approx):
            return specs.Quantile(**common, p=p, default=default, approx=approx)
        case _ if name == "distinct":
            # The client accepts only `unordered=True`, and does not send it.
            return specs.Distinct(**common, unordered=True, dropnull=part.dropnull)
        case _ if name == "decay":
            return specs.ExpDecaySum(**common, half_life_us=part.half_life_s * SECOND_US)
        case _:
            return specs.Sum(**common)


def _with_default(
    name: str, part: DefaultedMessage, of: DataType | None, common: Mapping[str, Any]
) -> AggregateSpec:
    default = None if part.is_default_null else part.default
    match name:
        case "average":
            return specs.Average(**common, default=default)
        case "stddev":
            return specs.Stddev(**common, default=default)
        case _:
            kind = specs.Min if name == "min" else specs.Max
            return kind(**common, default=None if default is None else _extremal(default, of))


def _extremal(default: float, of: DataType | None) -> float:
    """Return a default as a literal of a column's type; floats stay."""
    base = None if of is None else unrestricted(inner(of))
    match base:
        case None | Float():
            return default
        case Decimal(scale=scale):
            return int(PythonDecimal(str(default)).scaleb(scale))
        case _:
            return int(default) if default.is_integer() else default
