"""What authors ask of `aggregate`: `Count(window=…)`, `Sum(of=…, window=…)` and the others."""

from typing import NoReturn, TypeAlias

import attrs

from narthex import aggregate_specs as specs
from narthex.aggregate_specs import AggregateSpec
from narthex.declare.places import author_origin
from narthex.errors import NotYetSupported
from narthex.windows import Window


@attrs.frozen(kw_only=True)
class Count:
    """How many rows; of a column with `unique`, how many distinct values."""

    window: Window
    into_field: str = ""
    of: str | None = None
    unique: bool = False
    approx: bool = False
    dropnull: bool = False

    def build(self, into: str) -> AggregateSpec:
        return specs.Count(
            into=into,
            window=self.window,
            of=self.of,
            unique=self.unique,
            approx=self.approx,
            dropnull=self.dropnull,
        )


@attrs.frozen(kw_only=True)
class Sum:
    """The sum of a column."""

    of: str
    window: Window
    into_field: str = ""

    def build(self, into: str) -> AggregateSpec:
        return specs.Sum(into=into, window=self.window, of=self.of)


@attrs.frozen(kw_only=True)
class Average:
    """The mean of a column; `default` when there is none."""

    of: str
    window: Window
    into_field: str = ""
    default: float | None = 0.0

    def build(self, into: str) -> AggregateSpec:
        return specs.Average(into=into, window=self.window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class Min:
    """The least value of a column; `default`, or null, when there is none."""

    of: str
    window: Window
    into_field: str = ""
    default: float | None = None

    def build(self, into: str) -> AggregateSpec:
        return specs.Min(into=into, window=self.window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class Max:
    """The greatest value of a column; `default`, or null, when there is none."""

    of: str
    window: Window
    into_field: str = ""
    default: float | None = None

    def build(self, into: str) -> AggregateSpec:
        return specs.Max(into=into, window=self.window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class Stddev:
    """The population standard deviation of a column; `default` when there is none."""

    of: str
    window: Window
    into_field: str = ""
    default: float | None = -1.0

    def build(self, into: str) -> AggregateSpec:
        return specs.Stddev(into=into, window=self.window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class LastK:
    """The last `limit` values of a column, newest first; with `dedup`, each value once."""

    of: str
    window: Window
    limit: int
    dedup: bool
    into_field: str = ""
    dropnull: bool = False

    def build(self, into: str) -> AggregateSpec:
        return specs.LastK(
            into=into,
            window=self.window,
            of=self.of,
            limit=self.limit,
            dedup=self.dedup,
            dropnull=self.dropnull,
        )


Aggregate: TypeAlias = Count | Sum | Average | Min | Max | Stddev | LastK


class _NotYet:
    """An aggregate that is part of the language but cannot be computed yet."""

    def __init__(self, **parameters: object) -> None:
        self.parameters = parameters
        name = type(self).__name__
        _refuse(name)


def _refuse(name: str) -> NoReturn:
    raise NotYetSupported(
        f"the aggregate `{name}` is not supported yet",
        origin=author_origin(),
        hint="use Count, Sum, Average, Min, Max, Stddev or LastK",
    )


class FirstK(_NotYet):
    """The first `limit` values of a column; not supported yet."""


class Distinct(_NotYet):
    """The distinct values of a column; not supported yet."""


class Quantile(_NotYet):
    """A quantile of a column; not supported yet."""


class ExpDecaySum(_NotYet):
    """A sum that decays with time; not supported yet."""
