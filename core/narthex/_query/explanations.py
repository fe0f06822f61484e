"""The explanation of an answer: for each feature, the age of its data, and its default values."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

import attrs

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._ir.assets import DatasetPlan
from narthex._ir.schema import Role
from narthex._query.lookup_batch import FoundRow, RequestedKeys
from narthex._query.read_plan import Take

_T = TypeVar("_T")
_Rows: TypeAlias = Sequence[FoundRow | None]


@attrs.frozen
class FeatureExplanation:
    """The origin of a feature's cells; lists have one item per row.

    Attributes:
        sources: The dataset's column that was looked up, as `Dataset.column`, or the features that
            the feature is computed from; empty for a given feature.
        event_times: The event time of the oldest row that was found for the feature or one of its
            sources, microseconds; None where no row was found.
        defaults: Whether a default took the place of a missing row or a null, in the feature or one
            of its sources.
    """

    sources: tuple[str, ...]
    event_times: Sequence[int | None]
    defaults: Sequence[bool]

    def plain(self, as_of: int) -> dict[str, Json]:
        """Return it as JSON, with the ages in seconds as of an instant in microseconds."""
        return {
            "sources": [*self.sources],
            "event_time": [None if at is None else render_instant(at) for at in self.event_times],
            "age_s": [None if at is None else (as_of - at) / 1e6 for at in self.event_times],
            "default": [*self.defaults],
        }


@attrs.define
class Explanations:
    """The explanations of the features of one answer.

    Rows that authors' code looks up by itself are not included.

    Attributes:
        rows: The number of rows of the answer.
    """

    rows: int
    _features: dict[str, FeatureExplanation] = attrs.field(factory=dict)

    def of(self, feature: str) -> FeatureExplanation:
        """Return the explanation of a given or computed feature."""
        return self._features[feature]

    def given(self, features: Iterable[str]) -> None:
        """Note features that the caller gave."""
        for feature in features:
            self._add(feature, (), [None] * self.rows, [False] * self.rows)

    def looked_up(
        self, dataset: DatasetPlan, take: Take, requested: RequestedKeys, rows: _Rows
    ) -> None:
        """Note a feature that is a column of looked-up rows, one per key."""
        times = [None if row is None else row.event_time for row in rows]
        defaults = [_is_default(take, row) for row in rows]
        if requested.sizes is not None:
            times = [oldest(cells) for cells in _grouped(times, requested.sizes)]
            defaults = [any(cells) for cells in _grouped(defaults, requested.sizes)]
        self._add(take.feature, (f"{dataset.name}.{take.column}",), times, defaults)

    def computed(
        self,
        features: Iterable[str],
        sources: Iterable[str],
        replaced: Sequence[bool] | None = None,
    ) -> None:
        """Note features that are computed from others.

        Args:
            features: The features.
            sources: The features that they are computed from.
            replaced: Whether a default of their own took the place of a null, for each row.
        """
        names = tuple(dict.fromkeys(sources))
        known = [self._features[name] for name in names]
        times = [oldest(one.event_times[row] for one in known) for row in range(self.rows)]
        own = replaced or [False] * self.rows
        defaults = [own[row] or any(e.defaults[row] for e in known) for row in range(self.rows)]
        for feature in features:
            self._add(feature, names, times, defaults)

    def _add(
        self,
        feature: str,
        sources: tuple[str, ...],
        event_times: Sequence[int | None],
        defaults: Sequence[bool],
    ) -> None:
        made = FeatureExplanation(sources, event_times, defaults)
        self._features.setdefault(feature, made)


def oldest(event_times: Iterable[int | None]) -> int | None:
    """Return the smallest known event time."""
    return min((at for at in event_times if at is not None), default=None)


def _grouped(cells: Sequence[_T], sizes: Sequence[int]) -> Iterable[Sequence[_T]]:
    start = 0
    for size in sizes:
        yield cells[start : start + size]
        start += size


def _is_default(take: Take, row: FoundRow | None) -> bool:
    if row is None:
        return take.unseen is not None
    is_value = take.role is Role.VALUE
    return is_value and take.null is not None and row.values[take.position] is None
