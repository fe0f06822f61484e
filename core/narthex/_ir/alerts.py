"""Bounds on datasets that authors declare; the server raises an alert when one is exceeded."""

import enum
from typing import TypeAlias

import attrs

from narthex._base.records import record


@record
class AlertSeverity(enum.Enum):
    """How urgent an alert is, the most urgent first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@record
@attrs.frozen(kw_only=True)
class Freshness:
    """The greatest age of the newest row of a dataset, by event time."""

    max_age_us: int
    severity: AlertSeverity


@record
@attrs.frozen(kw_only=True)
class QuarantineRate:
    """The greatest share of a dataset's rows that are quarantined, over the last while.

    Attributes:
        max_rate: 0 to 1; of the rows that arrived, in the dataset or in its quarantine.
        window_us: The length of the while.
    """

    max_rate: float
    window_us: int
    severity: AlertSeverity


AlertBound: TypeAlias = Freshness | QuarantineRate
