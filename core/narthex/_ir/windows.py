"""The windows of event time over which an aggregate is computed."""

from decimal import Decimal, InvalidOperation
from typing import TypeAlias

import attrs

from narthex._base.records import LATER, record
from narthex._base.times import DurationError, parse_duration
from narthex.errors import WindowInvalid


def _span_us(duration: str | int | None) -> int | None:
    if duration is None or duration == "forever":
        return None
    return duration if isinstance(duration, int) else parse_duration(duration)


def _finite_us(duration: str | int) -> int:
    if duration == "forever":
        raise DurationError("`forever` has no end, which this part of a window must have")
    return duration if isinstance(duration, int) else parse_duration(duration)


def _share(max_error: str | float) -> float:
    if not isinstance(max_error, str):
        return float(max_error)
    number = max_error.strip().removesuffix("%")
    try:
        share = Decimal(number) / (100 if number != max_error.strip() else 1)
    except InvalidOperation:
        share = Decimal(-1)
    if not share.is_finite() or not 0 < share < 1:
        raise WindowInvalid(
            f"`max_error` got `{max_error}`; expected a share of the window's length",
            hint='write it as `max_error="0.1%"`',
        )
    return float(share)


@record
@attrs.frozen
class Continuous:
    """All rows of the last `duration`, both ends inclusive, sliding with the query's instant.

    Attributes:
        duration: Microseconds; None is forever. Authors write `"1h"` or `"forever"`.
        max_error: The share of its length by which the window may be longer or shorter, so that
            raw rows need not be kept. 0 is exact. Authors write `"0.1%"`.
    """

    duration: int | None = attrs.field(converter=_span_us)
    max_error: float = attrs.field(default=0.0, converter=_share, metadata=LATER, kw_only=True)


@record
@attrs.frozen
class Tumbling:
    """Back-to-back spans aligned to the epoch; a query reads the newest closed one."""

    duration: int = attrs.field(converter=_finite_us)
    lookback: int = attrs.field(default=0, converter=_finite_us)


@record
@attrs.frozen
class Hopping:
    """Overlapping spans that start at multiples of the stride."""

    duration: int | None = attrs.field(converter=_span_us)
    stride: int = attrs.field(converter=_finite_us)
    lookback: int = attrs.field(default=0, converter=_finite_us)


@record
@attrs.frozen
class Session:
    """Rows of a key with gaps of at most `gap` between them."""

    gap: int = attrs.field(converter=_finite_us)


Window: TypeAlias = Continuous | Tumbling | Hopping | Session
