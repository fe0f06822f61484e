"""The part of the ledger for samples of the platform's metrics."""

import datetime as dt
import itertools
from collections.abc import Collection, Sequence
from typing import Final

import attrs
from sqlalchemy.engine import Connection

from narthex_ledger.db import metric_rows as on_metrics
from narthex_ledger.model.metric_views import (
    MINUTE,
    RESOLUTIONS,
    MetricKind,
    MetricPoints,
    MetricReading,
    MetricSpan,
    Resolution,
    bucket_of,
    completed,
    folded,
    points_of,
    sampled,
)
from narthex_ledger.session import LedgerDatabase

SETTLES: Final = 2 * MINUTE
"""How long after its end a bucket is folded: a transaction of another process may still add to it.

A transaction of the ledger ends within some multiples of its time limits, which are 30 s; one that
ends later is missing from the coarser buckets.
"""


@attrs.frozen
class Metrics:
    """Samples of metrics; each method is one transaction, and may be repeated as it is.

    Every server may record them: a subject has one sample a minute, the first one.
    """

    _db: LedgerDatabase

    def is_due(self) -> bool:
        """Whether the datasets and jobs have no sample of the present minute."""
        kinds = (MetricKind.DATASET, MetricKind.JOB)
        return not self._db.run("metrics_due", lambda c: on_metrics.has_sample(c, kinds))

    def record(self, readings: Sequence[MetricReading]) -> int:
        """Store a sample of the present minute of each subject that has none; return how many.

        A sample has by how much a counter grew since the sample of the minute before. Without that
        one it is unknown.
        """

        def work(connection: Connection) -> int:
            stored = on_metrics.lock_series(connection, readings)
            at = on_metrics.this_minute(connection)
            rows = ((stored[one.kind, one.branch, one.subject], one) for one in readings)
            fresh = {row.series_id: (row, one) for row, one in rows if row.sampled_at != at}
            samples = {
                series_id: sampled(one, row.counters if row.sampled_at == at - MINUTE else {})
                for series_id, (row, one) in fresh.items()
            }
            on_metrics.put_samples(connection, at, RESOLUTIONS[0].minutes, samples)
            counters = {series_id: one.counters for series_id, (_, one) in fresh.items()}
            on_metrics.put_counters(connection, at, counters)
            return len(samples)

        return self._db.run("record_metrics", work)

    def fold(self) -> int:
        """Store one sample for the minutes of each bucket that has ended; return how many."""

        def work(connection: Connection) -> int:
            settled = on_metrics.this_minute(connection) - SETTLES
            pairs = itertools.pairwise(RESOLUTIONS)
            return sum(self._fold(connection, *pair, settled) for pair in pairs)

        return self._db.run("fold_metrics", work)

    @staticmethod
    def _fold(
        connection: Connection, finer: Resolution, coarser: Resolution, settled: dt.datetime
    ) -> int:
        until = bucket_of(settled, coarser.minutes)
        found = on_metrics.unfolded(connection, finer.minutes, coarser.minutes, until)
        by_bucket: dict[dt.datetime, dict[int, tuple[float | None, ...]]] = {}
        for (kind, series_id), samples in found.items():
            for at, numbers in folded(kind, samples, coarser.minutes).items():
                by_bucket.setdefault(at, {})[series_id] = numbers
        for at, bucket in by_bucket.items():
            on_metrics.put_samples(connection, at, coarser.minutes, bucket)
        return sum(map(len, by_bucket.values()))

    def forget(self, *, older_than: dt.timedelta) -> int:
        """Delete samples that are older, or that a coarser one replaces; return how many."""
        kept = {one.minutes: min(one.kept, older_than) for one in RESOLUTIONS}
        return self._db.run("forget_metrics", lambda c: on_metrics.delete_samples(c, kept))

    def points(
        self,
        kind: MetricKind,
        span: MetricSpan,
        *,
        branch: str = "",
        subjects: Collection[str] | None = None,
    ) -> MetricPoints:
        """Return the samples of a span until now: of a subject, or of several together.

        Args:
            kind: The kind of the subjects.
            span: The span, which decides on the length of buckets.
            branch: Their branch; empty for subjects without one.
            subjects: The subjects; None for all of the branch.
        """

        def work(connection: Connection) -> MetricPoints:
            now = on_metrics.this_minute(connection)
            since = {span.minutes: now - (span.buckets + 1) * span.minutes * MINUTE}
            for finer, coarser in itertools.pairwise(RESOLUTIONS):
                if coarser.minutes <= span.minutes:
                    # Minutes of the present bucket and the one before may not be folded yet.
                    length = coarser.minutes * MINUTE
                    since[finer.minutes] = bucket_of(now, coarser.minutes) - length
            stored = on_metrics.samples_of(
                connection, kind, since, branch=branch, subjects=subjects
            )
            return points_of(completed(kind, stored, span.minutes), span, now)

        return self._db.run("metric_points", work)
