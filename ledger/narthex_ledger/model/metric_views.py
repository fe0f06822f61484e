"""Samples of the platform's metrics, and how they are put together: in time, and of several series.

A series has one sample a minute. Of the minutes of an ended bucket, one sample remains; its length
is one of `RESOLUTIONS`. Nothing is ever interpolated: a bucket without a sample is a gap.
"""

import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

MINUTE: Final = dt.timedelta(minutes=1)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

LATENCY_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""The bounds of histograms of durations. Stored samples have one number for each, in this order."""


class MetricKind(enum.StrEnum):
    """The kinds of subjects that have series."""

    DATASET = "dataset"
    """A dataset of a branch, by name."""
    JOB = "job"
    """A job or a feed, by the id of its asset; branches share it, so it has none."""
    PROCESS = "process"
    """A process that answers queries."""


class Fold(enum.Enum):
    """How several numbers become one."""

    SUM = "sum"
    GREATEST = "greatest"


@attrs.frozen
class Measure:
    """A number of a sample.

    Attributes:
        in_time: How the numbers of several minutes become one.
        of_series: How the numbers of several series at the same time become one.
        minutes_of: The counter of which this is the number of minutes in which it was read; empty
            for other measures.
    """

    name: str
    in_time: Fold = Fold.SUM
    of_series: Fold = Fold.SUM
    minutes_of: str = ""


MEASURES: Final[Mapping[MetricKind, tuple[Measure, ...]]] = {
    MetricKind.DATASET: (
        Measure("freshness_s", Fold.GREATEST, Fold.GREATEST),
        Measure("watermark_lag_s", Fold.GREATEST, Fold.GREATEST),
        Measure("behind", Fold.GREATEST),
        Measure("rows"),
        Measure("counted_minutes", Fold.SUM, Fold.GREATEST, minutes_of="rows"),
        Measure("late"),
        Measure("quarantined"),
    ),
    MetricKind.JOB: (
        Measure("lag_s", Fold.GREATEST, Fold.GREATEST),
        Measure("behind", Fold.GREATEST),
        Measure("restarts"),
        Measure("rows"),
        Measure("counted_minutes", Fold.SUM, Fold.GREATEST, minutes_of="rows"),
        Measure("quarantined"),
        Measure("freshness_s", Fold.GREATEST, Fold.GREATEST),
        Measure("since_success_s", Fold.GREATEST, Fold.GREATEST),
    ),
    MetricKind.PROCESS: (
        Measure("queries"),
        Measure("counted_minutes", Fold.SUM, Fold.GREATEST, minutes_of="queries"),
        Measure("errors"),
        *(Measure(f"within_{bound}_s") for bound in LATENCY_BOUNDS_S),
    ),
}
"""The numbers of the samples of each kind, in the order in which they are stored.

Stored samples have no names: append to them, and change nothing else.
"""

Numbers: TypeAlias = tuple[float | None, ...]
"""A sample: a number for each measure of its kind; None where it was not known."""

Samples: TypeAlias = Mapping[dt.datetime, Numbers]
"""Samples by the beginnings of their buckets."""


@attrs.frozen(kw_only=True)
class Resolution:
    """A length of buckets, and for how long samples of it are kept."""

    minutes: int
    kept: dt.timedelta


RESOLUTIONS: Final = (
    Resolution(minutes=1, kept=dt.timedelta(hours=2)),
    Resolution(minutes=10, kept=dt.timedelta(hours=28)),
    Resolution(minutes=60, kept=dt.timedelta(days=8)),
    Resolution(minutes=240, kept=dt.timedelta(days=31)),
)
"""The lengths of buckets; each is a multiple of the one before, and made from its samples."""


class MetricSpan(enum.StrEnum):
    """A time until now for which series are shown."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def minutes(self) -> int:
        """The length of its buckets."""
        return RESOLUTIONS[list(MetricSpan).index(self)].minutes

    @property
    def buckets(self) -> int:
        """How many buckets it has."""
        return {"hour": 60, "day": 144, "week": 168, "month": 180}[self.value]


@attrs.frozen(kw_only=True)
class MetricCount:
    """A counter as it was read.

    Attributes:
        of: What it counts in: another topic has another counter. A counter that begins anew, as
            that of a process, has the same name.
    """

    of: str
    count: float


@attrs.frozen(kw_only=True)
class MetricReading:
    """The state of a subject as it was read.

    Attributes:
        branch: Empty for a subject that is of no branch.
        gauges: Numbers of now, by measure; None where one is not known.
        counters: Counters by measure; its sample has by how much it grew in the minute.
    """

    kind: MetricKind
    branch: str
    subject: str
    gauges: Mapping[str, float | None] = attrs.field(factory=dict)
    counters: Mapping[str, MetricCount] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class MetricPoints:
    """The samples of a span: `None` for each bucket without one.

    Attributes:
        begin: The beginning of the first bucket.
        minutes: The length of each bucket.
    """

    begin: dt.datetime
    minutes: int
    points: tuple[Numbers | None, ...]


def bucket_of(at: dt.datetime, minutes: int) -> dt.datetime:
    """Return the beginning of the bucket of an instant; buckets are counted from 1970, in UTC."""
    return at - (at - _EPOCH) % (minutes * MINUTE)


def sampled(reading: MetricReading, before: Mapping[str, MetricCount]) -> Numbers:
    """Return the sample of a reading.

    Args:
        reading: The reading.
        before: The counters of the minute before; without one, it is unknown how much it grew.
    """
    found = {
        **reading.gauges,
        **{name: _growth(before.get(name), after) for name, after in reading.counters.items()},
    }
    return tuple(
        found.get(measure.name)
        if not measure.minutes_of
        else (None if found.get(measure.minutes_of) is None else 1.0)
        for measure in MEASURES[reading.kind]
    )


def _growth(before: MetricCount | None, after: MetricCount) -> float | None:
    if before is None or before.of != after.of:
        return None
    # A counter that is smaller has begun anew: what it has now was counted since then.
    return after.count - before.count if after.count >= before.count else after.count


def folded(kind: MetricKind, samples: Samples, minutes: int) -> dict[dt.datetime, Numbers]:
    """Return one sample for each longer bucket that has samples."""
    found: dict[dt.datetime, list[Numbers]] = {}
    for at, numbers in samples.items():
        found.setdefault(bucket_of(at, minutes), []).append(numbers)
    folds = [measure.in_time for measure in MEASURES[kind]]
    # A sample of an earlier version may have fewer numbers.
    return {
        at: tuple(
            _number(fold, [one[place] for one in given if place < len(one)])
            for place, fold in enumerate(folds)
        )
        for at, given in found.items()
    }


def completed(
    kind: MetricKind, stored: Mapping[int, Samples], minutes: int
) -> dict[dt.datetime, Numbers]:
    """Return the samples of a resolution, with those of buckets that were not folded yet.

    Args:
        kind: The kind of the series.
        stored: The stored samples by resolution, in minutes. Those of finer ones begin with a
            bucket of the next coarser one.
        minutes: The wanted resolution.
    """
    found: dict[dt.datetime, Numbers] = {}
    for resolution in RESOLUTIONS:
        if resolution.minutes <= minutes:
            found = folded(kind, found, resolution.minutes) | {**stored.get(resolution.minutes, {})}
    return found


def points_of(samples: Samples, span: MetricSpan, now: dt.datetime) -> MetricPoints:
    """Return the buckets of a span until now; the present one only if it has a sample."""
    length = span.minutes * MINUTE
    last = bucket_of(now, span.minutes)
    last = last if last in samples else last - length
    begin = last - (span.buckets - 1) * length
    return MetricPoints(
        begin=begin,
        minutes=span.minutes,
        points=tuple(samples.get(begin + number * length) for number in range(span.buckets)),
    )


def _number(fold: Fold, given: Iterable[float | None]) -> float | None:
    known = [number for number in given if number is not None]
    if not known:
        return None
    return sum(known) if fold is Fold.SUM else max(known)
