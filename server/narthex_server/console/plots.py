"""Metrics over time as plots: lines of gauges and rates, bars of counts, and gaps without samples.

The pages' template draws them as SVG. A line has a step for each bucket, so that nothing is shown
that was not measured; a bucket without a value is marked as a gap.
"""

import datetime as dt
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from narthex_server.operations.metric_series import MetricHistory, MetricLine

WIDTH: Final = 380
HEIGHT: Final = 130
LEFT: Final = 52
RIGHT: Final = 16
TOP: Final = 8
BOTTOM: Final = 20
INNER_WIDTH: Final = WIDTH - LEFT - RIGHT
INNER_HEIGHT: Final = HEIGHT - TOP - BOTTOM

COUNTED: Final = frozenset({"rows", "answers", "restarts"})
"""The units of counts of a bucket, which are drawn as bars and added up."""

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_DURATIONS: Final = (
    *(factor * scale for scale in (0.001, 0.01, 0.1, 1) for factor in (1, 2, 5)),
    *(factor * scale for scale in (1, _MINUTE) for factor in (10, 20, 30)),
    *(factor * _MINUTE for factor in (1, 2, 5)),
    *(factor * _HOUR for factor in (1, 2, 4, 6, 12)),
    _DAY,
)
"""Durations in seconds at which an axis may end."""

_NAMED: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"), (0.001, "ms"))
_TICKS: Final = {"hour": 15, "day": 360, "week": 1440, "month": 10080}
"""The minutes between the times that are written below a plot, by its span."""

Rectangle: TypeAlias = tuple[float, float]
"""The left edge and the width."""


@attrs.frozen(kw_only=True)
class PlotBucket:
    """A bucket with a value: its place, and the text that a pointer on it shows."""

    x: float
    width: float
    top: float
    text: str


@attrs.frozen(kw_only=True)
class PlotLabel:
    """A number or a time at an axis."""

    at: float
    text: str


@attrs.frozen(kw_only=True)
class Plot:
    """A metric over time, in coordinates of its picture.

    Attributes:
        name: Its name in the API.
        is_counted: Whether its values are drawn as bars.
        path: The line; empty for bars.
        gaps: The spans without a value.
        summary: The newest and the greatest value, or the sum, in words.
        description: The same with the span and the gaps, for people who do not see the plot.
    """

    name: str
    title: str
    is_counted: bool
    path: str
    buckets: tuple[PlotBucket, ...]
    gaps: tuple[Rectangle, ...]
    numbers: tuple[PlotLabel, ...]
    times: tuple[PlotLabel, ...]
    summary: str
    description: str


def plots(history: MetricHistory) -> list[Plot]:
    """Return the plots of metrics, in their order."""
    return [_plot(history, line) for line in history["series"]]


def _plot(history: MetricHistory, line: MetricLine) -> Plot:
    values, unit = line["values"], line["unit"]
    known = [value for value in values if value is not None]
    end = axis_end(max(known, default=0.0), unit)
    width = INNER_WIDTH / len(values)
    tops = [None if value is None else _y(value / end) for value in values]
    begin = dt.datetime.fromisoformat(history["from"])
    length = dt.timedelta(minutes=history["bucket_minutes"])
    summary = _summary(values, unit)
    missing = len(values) - len(known)
    gaps = f" There is no sample in {missing} of {len(values)} buckets." if missing else ""
    return Plot(
        name=line["name"],
        title=line["meaning"],
        is_counted=unit in COUNTED,
        path="" if unit in COUNTED else _steps(tops, width),
        buckets=tuple(
            PlotBucket(
                x=round(LEFT + place * width, 2),
                width=round(width, 2),
                top=top,
                text=f"{begin + place * length:%Y-%m-%d %H:%M}: {shown(value, unit)}",
            )
            for place, (value, top) in enumerate(zip(values, tops, strict=True))
            if value is not None and top is not None
        ),
        gaps=tuple(_gaps(values, width)),
        numbers=tuple(
            PlotLabel(at=_y(share), text=axis_text(share * end, unit)) for share in (0, 0.5, 1)
        ),
        times=tuple(_times(history, begin, length)),
        summary=summary,
        description=f"{line['meaning']}, the last {history['span']}: {summary}.{gaps}",
    )


def _y(share: float) -> float:
    return round(TOP + INNER_HEIGHT * (1 - share), 2)


def _steps(tops: Sequence[float | None], width: float) -> str:
    """Return a path with a level for each value; it is interrupted where there is none."""
    drawn: list[str] = []
    before: float | None = None
    for place, top in enumerate(tops):
        if top is not None:
            x = LEFT + place * width
            drawn.append(f"M{x:.2f},{top}" if before is None else f"V{top}")
            drawn.append(f"H{x + width:.2f}")
        before = top
    return " ".join(drawn)


def _gaps(values: Sequence[float | None], width: float) -> Iterator[Rectangle]:
    place = 0
    for is_gap, run in itertools.groupby(values, key=lambda value: value is None):
        count = len(list(run))
        if is_gap:
            yield round(LEFT + place * width, 2), round(count * width, 2)
        place += count


def _times(history: MetricHistory, begin: dt.datetime, length: dt.timedelta) -> Iterator[PlotLabel]:
    """Yield the times below a plot: those that are multiples of a round length, in UTC."""
    buckets = len(history["series"][0]["values"])
    every = dt.timedelta(minutes=_TICKS[history["span"]])
    form = "%H:%M" if every < dt.timedelta(days=1) else "%d %b"
    first = begin + (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) - begin) % every
    at = first
    while at <= begin + buckets * length:
        x = LEFT + INNER_WIDTH * ((at - begin) / (buckets * length))
        yield PlotLabel(at=round(x, 2), text=f"{at:{form}}")
        at += every


def axis_end(greatest: float, unit: str) -> float:
    """Return the end of an axis from 0 that has room for a number: a round one."""
    if unit == "s":
        if greatest <= _DURATIONS[-1]:
            return next(one for one in sorted(_DURATIONS) if one >= greatest)
        return _round_up(greatest / _DAY) * _DAY
    # Counts are whole, and half of the axis is written too.
    least = 2.0 if unit in COUNTED or unit == "records" else 0.001
    return _round_up(max(greatest, least)) if greatest else max(least, 1.0)


def _round_up(number: float) -> float:
    """Return the least of 1, 2, 4, 6, 8, 10, 20 … that is not less; of tenths and so on too."""
    scale = 10.0 ** math.floor(math.log10(number))
    factors = (1, 2, 4, 6, 8, 10)
    return next(factor * scale for factor in factors if factor * scale >= number * (1 - 1e-9))


def axis_text(number: float, unit: str) -> str:
    """Return a number in few letters, without its unit unless it is a duration."""
    if unit == "s":
        return duration(number)
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= scale:
            return f"{number / scale:.3g}{letter}"
    return f"{number:.3g}"


def shown(number: float, unit: str) -> str:
    """Return a number with its unit."""
    if unit == "s":
        return duration(number)
    text = f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"  # noqa: PLR2004
    return f"{text} {unit}"


def duration(seconds: float) -> str:
    """Return a duration in the unit that suits it, with at most three digits."""
    for scale, name in _NAMED:
        if seconds >= scale:
            return f"{seconds / scale:.3g} {name}"
    return "0 s" if not seconds else f"{seconds * 1000:.2g} ms"


def _summary(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "no samples"
    if unit in COUNTED:
        return f"{shown(sum(known), unit)} in all"
    newest = "unknown" if values[-1] is None else shown(values[-1], unit)
    return f"latest {newest}, at most {shown(max(known), unit)}"
