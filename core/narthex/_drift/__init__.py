"""Drift: mergeable summaries of features, and their comparison with a reference.

`summaries` are counted from logged answers; `comparison` judges them with the metrics of
`distances` over the bins of `bins`.
"""

from narthex._drift.comparison import (
    LEAST_ROWS,
    THRESHOLDS,
    DriftMetric,
    DriftReference,
    FeatureDrift,
    drift_of,
)
from narthex._drift.number_counts import InvalidSummaryError
from narthex._drift.summaries import (
    FeatureKind,
    FeatureSummary,
    kind_of,
    merged_summary,
    summary_of,
)

__all__ = [
    "LEAST_ROWS",
    "THRESHOLDS",
    "DriftMetric",
    "DriftReference",
    "FeatureDrift",
    "FeatureKind",
    "FeatureSummary",
    "InvalidSummaryError",
    "drift_of",
    "kind_of",
    "merged_summary",
    "summary_of",
]
