"""The parts of the ledger for summaries of features and columns, and for drift."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

import attrs
from sqlalchemy.engine import Connection

from narthex._drift import FeatureSummary, merged_summary
from narthex_ledger.db.statements import feature_drift as on_drift
from narthex_ledger.errors import LedgerRefused, NotFound
from narthex_ledger.model.drift_views import DriftView, HourSummary, WindowView
from narthex_ledger.session import LedgerDatabase

Span = tuple[dt.datetime, dt.datetime]
"""The hours from one instant, included, until another, excluded."""

CURRENT = dt.timedelta(hours=26)
"""How long a finding counts that no newer comparison has replaced: a day and two hours."""


@attrs.frozen
class FeatureSummaries:
    """Summaries of logged answers and of rows that arrived, by feature or column and hour.

    Each method is a transaction.
    """

    _db: LedgerDatabase

    def offsets(self) -> dict[int, int]:
        """Return up to where the log of logged queries is summarized, by partition."""
        return self._db.run("answer_offsets", on_drift.answer_offsets)

    def add(
        self, parts: Sequence[HourSummary], *, start: Mapping[int, int], end: Mapping[int, int]
    ) -> None:
        """Merge summaries of the records from some offsets until others into the stored ones.

        A summary replaces a stored one of another kind: the type of its feature has changed.

        Raises:
            LedgerRefused: The stored offsets are not those of the start.
        """

        def run(connection: Connection) -> None:
            on_drift.lock_answer_offsets(connection)
            stored = on_drift.answer_offsets(connection)
            if {p: stored.get(p, 0) for p in start} != dict(start):
                raise LedgerRefused(
                    f"logged queries are summarized up to {stored}, and not up to {dict(start)}; "
                    "read the offsets again"
                )
            merged: dict[on_drift.HourKey, list[FeatureSummary]] = {}
            for part in parts:
                key = (part.branch, part.feature, part.hour)
                merged.setdefault(key, []).append(part.summary)
            for key, encoded in on_drift.summaries_at(connection, [*merged]).items():
                merged[key].insert(0, FeatureSummary.decoded(encoded))
            on_drift.put_summaries(
                connection, {key: _of_newest_kind(given).encoded() for key, given in merged.items()}
            )
            on_drift.put_answer_offsets(connection, end)

        self._db.run("add_summaries", run)

    def replace(self, parts: Sequence[HourSummary]) -> None:
        """Store summaries of columns of datasets, over those of the same hours."""
        encoded = {(one.branch, one.feature, one.hour): one.summary.encoded() for one in parts}
        self._db.run("replace_summaries", lambda c: on_drift.put_summaries(c, encoded))

    def forget_entities(self, entities: Collection[str]) -> None:
        """Delete all statistics of datasets and featuresets, and their pinned windows.

        Their most frequent values may be those of a person.
        """
        self._db.run("forget_summaries", lambda c: on_drift.delete_of(c, entities))

    def entities(self) -> frozenset[str]:
        """Return the datasets and featuresets with statistics or pinned windows."""
        return self._db.run("summarized_entities", on_drift.entities)

    def newest_hours(self) -> dict[tuple[str, str], dt.datetime]:
        """Return the newest hour with a summary, by branch and dataset or featureset."""
        return self._db.run("newest_summaries", on_drift.newest_summaries)

    def merged(
        self, branch: str, span: Span, *, features: Collection[str] | None = None
    ) -> dict[str, FeatureSummary]:
        """Return the summaries of the features of a branch over some hours; of all by default."""
        found = self._db.run(
            "summaries", lambda c: on_drift.summaries_between(c, branch, span, features)
        )
        by_feature: dict[str, list[FeatureSummary]] = {}
        for feature, encoded in found:
            by_feature.setdefault(feature, []).append(FeatureSummary.decoded(encoded))
        return {feature: _of_newest_kind(given) for feature, given in by_feature.items()}

    def forget(self, *, older_than: dt.timedelta) -> int:
        """Delete summaries and results of drift that are older; return how many."""
        return self._db.run("forget_summaries", lambda c: on_drift.delete_old(c, older_than))


@attrs.frozen
class Drift:
    """Results of drift, and the windows that answers are compared with."""

    _db: LedgerDatabase

    def pin(
        self, branch: str, name: str, span: Span, summaries: Mapping[str, FeatureSummary]
    ) -> None:
        """Store the summaries of a window, which stay when those of its hours are deleted.

        Raises:
            LedgerRefused: The branch has a window of that name, or there is nothing in it.
        """
        encoded = {feature: summary.encoded() for feature, summary in summaries.items()}
        if not encoded:
            raise LedgerRefused(
                f"no logged answers and no rows are in window `{name}`; log queries first"
            )
        if not self._db.run(
            "pin_window", lambda c: on_drift.insert_window(c, branch, name, span, encoded)
        ):
            raise LedgerRefused(f"window `{name}` exists; choose another name, or delete it first")

    def windows(self, branch: str) -> tuple[WindowView, ...]:
        """List the pinned windows of a branch, by name."""
        return self._db.run("windows", lambda c: on_drift.windows(c, branch))

    def window(self, branch: str, name: str) -> dict[str, FeatureSummary]:
        """Return the summaries of a pinned window by feature.

        Raises:
            NotFound: The branch has none of that name.
        """
        found = self._db.run("window", lambda c: on_drift.window_summaries(c, branch, name))
        if not found:
            raise NotFound(f"there is no window `{name}`")
        return {feature: FeatureSummary.decoded(encoded) for feature, encoded in found.items()}

    def unpin(self, branch: str, name: str) -> bool:
        """Delete a window; return whether there was one of that name."""
        return self._db.run("unpin_window", lambda c: on_drift.delete_window(c, branch, name))

    def record(self, found: Sequence[DriftView]) -> None:
        """Store results; a repeated comparison of the same hours replaces its result."""
        self._db.run("record_drift", lambda c: on_drift.put_drift(c, found))

    def newest(
        self, limit: int = 100, *, branches: Collection[str] | None = None
    ) -> tuple[DriftView, ...]:
        """List results, the newest first; with `branches`, only those of their features."""
        return self._db.run("drift", lambda c: on_drift.newest_drift(c, limit, branches))

    def current(
        self, *, branches: Collection[str] | None = None, within: dt.timedelta = CURRENT
    ) -> tuple[DriftView, ...]:
        """List the findings of now, the critical ones first.

        A finding is the newest comparison of a feature with a reference, if it has a severity.
        Hours with too few answers to compare neither are findings nor end one.
        """
        return self._db.run("current_drift", lambda c: on_drift.current_drift(c, within, branches))


def _of_newest_kind(given: Sequence[FeatureSummary]) -> FeatureSummary:
    return merged_summary(one for one in given if one.kind is given[-1].kind)
