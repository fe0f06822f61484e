"""The spans of event time that an aggregate can see."""

from typing import TypeAlias

import attrs

from narthex.records import record
from narthex.times import parse_duration


def _span_us(duration: str | int | None) -> int | None:
    if duration is None or duration == "forever":
        return None
    return duration if isinstance(duration, int) else parse_duration(duration)


def _finite_us(duration: str | int) -> int:
    return duration if isinstance(duration, int) else parse_duration(duration)


@record
@attrs.frozen
class Continuous:
    """All rows of the last `duration`, both ends inclusive, sliding with the question.

    Attributes:
        duration: Microseconds; None is forever. Authors write `"1h"` or `"forever"`.
    """

    duration: int | None = attrs.field(converter=_span_us)


@record
@attrs.frozen
class Tumbling:
    """Back-to-back spans aligned to the epoch; the newest closed one counts."""

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
    """Rows of a key no further apart than `gap`."""

    gap: int = attrs.field(converter=_finite_us)


Window: TypeAlias = Continuous | Tumbling | Hopping | Session
