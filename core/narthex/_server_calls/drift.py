"""The client's calls about logged answers and rows that arrived: their statistics and drift."""

import datetime as dt
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from narthex._base.records import Json
from narthex._server_calls.responses import Response
from narthex._server_calls.transport import Caller
from narthex.errors import ArgumentsUnfit


class DriftCalls:
    """The calls of a client that concern the drift of features and columns."""

    _transport: Caller

    def drift(
        self,
        *,
        training_set: str = "",
        window: str = "",
        featuresets: Iterable[str] = (),
        datasets: Iterable[str] = (),
        start: dt.datetime | None = None,
        end: dt.datetime | None = None,
    ) -> list[dict[str, Json]]:
        """Compare logged answers with a training set or a pinned window, feature by feature.

        Columns of datasets are compared with pinned windows, by the rows that arrived. Whole hours
        are compared. Features without logged answers in them, and columns without rows, are left
        out.

        Args:
            training_set: The name of a training set.
            window: The name of a pinned window instead; without either, each feature is compared
                with the newest training set that has it, and with all pinned windows.
            featuresets: The featuresets to compare; all by default, unless datasets are given.
            datasets: The datasets to compare; all by default, unless featuresets are given.
            start: The first instant, in a time zone; 24 hours before the end by default.
            end: The instant to stop before; now by default.

        Returns:
            For each feature or column, and each reference, its `severity` (`critical`, `warning` or
            None), the number of `rows` and the `metrics`, each with its `value`, its thresholds and
            `by_chance`: what samples of these sizes reach without drift.

        Raises:
            ArgumentsUnfit: Both a training set and a window are named, or an instant lacks a zone.
            Refused: There is no such reference.
        """
        if training_set and window:
            raise ArgumentsUnfit("pass either `training_set` or `window`, not both")
        asked = _asked(featuresets, start, end) | {"dataset": [*datasets]}
        if training_set or window:
            asked["reference_kind"] = "training_set" if training_set else "window"
            asked["reference"] = training_set or window
        return _items(self._transport.read("drift/comparison", asked), "drift")

    def drift_findings(self) -> list[dict[str, Json]]:
        """Return the drift that the scheduled comparisons currently find, critical first."""
        return _items(self._transport.read("drift", {"current": "true", "limit": 1000}), "drift")

    def feature_statistics(
        self,
        *,
        featuresets: Iterable[str] = (),
        start: dt.datetime | None = None,
        end: dt.datetime | None = None,
    ) -> list[dict[str, Json]]:
        """Return statistics and histograms of logged answers, of the last 24 hours by default.

        Raises:
            ArgumentsUnfit: An instant lacks a time zone.
        """
        asked = _asked(featuresets, start, end)
        return _items(self._transport.read("feature_summaries", asked), "features")

    def column_statistics(
        self,
        *,
        datasets: Iterable[str] = (),
        start: dt.datetime | None = None,
        end: dt.datetime | None = None,
    ) -> list[dict[str, Json]]:
        """Return statistics and histograms of the rows that arrived in datasets, by column.

        They are of the rows of the last 24 hours by default.

        Args:
            datasets: The datasets; all by default.
            start: The first instant, in a time zone; its whole hour counts.
            end: The instant to stop before; its whole hour counts.

        Returns:
            For each `column` its `statistics` and its `histogram`. Keys have none.

        Raises:
            ArgumentsUnfit: An instant lacks a time zone.
        """
        asked: dict[str, str | Sequence[str]] = {"dataset": [*datasets], **_span(start, end)}
        return _items(self._transport.read("column_summaries", asked), "columns")

    def pin_window(self, name: str, *, start: dt.datetime, end: dt.datetime) -> list[str]:
        """Pin the logged answers and the rows that arrived in some hours, to compare later ones.

        It is kept until `unpin_window`, also when the statistics of these hours are deleted.

        Returns:
            The features that have logged answers in it, and the columns that have rows.

        Raises:
            ArgumentsUnfit: An instant lacks a time zone.
            Refused: The branch has a window of that name, or there is nothing in it.
        """
        body: dict[str, Json] = {"name": name, **_span(start, end)}
        features = self._transport.send("drift/windows", body).body.get("features")
        return [str(one) for one in features] if isinstance(features, list) else []

    def unpin_window(self, name: str) -> None:
        """Delete a pinned window.

        Raises:
            Refused: There is none of that name.
        """
        self._transport.send(f"drift/windows/{quote(name, safe='')}", verb="DELETE")


def _asked(
    featuresets: Iterable[str], start: dt.datetime | None, end: dt.datetime | None
) -> dict[str, str | Sequence[str]]:
    return {"featureset": [*featuresets], **_span(start, end)}


def _span(start: dt.datetime | None, end: dt.datetime | None) -> dict[str, str]:
    found = {name: at for name, at in (("from", start), ("to", end)) if at is not None}
    if any(at.tzinfo is None for at in found.values()):
        raise ArgumentsUnfit("`start` and `end` need a time zone, such as `datetime.UTC`")
    return {name: at.isoformat() for name, at in found.items()}


def _items(answer: Response, name: str) -> list[dict[str, Json]]:
    found = answer.body.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
