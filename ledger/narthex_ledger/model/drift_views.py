"""Summaries of features, pinned windows and results of drift, as the ledger returns them."""

import datetime as dt
import enum

import attrs

from narthex._base import Json
from narthex._drift import FeatureSummary
from narthex._ir import Severity


class ReferenceKind(enum.StrEnum):
    """The kind of a reference."""

    TRAINING_SET = "training_set"
    WINDOW = "window"


@attrs.frozen(kw_only=True)
class HourSummary:
    """The summary of one feature's logged answers in one hour, or of a column's rows.

    Attributes:
        feature: Its full name, or `Dataset.column`.
        hour: The beginning of the hour.
    """

    branch: str
    feature: str
    hour: dt.datetime
    summary: FeatureSummary


@attrs.frozen(kw_only=True)
class WindowView:
    """A pinned window: the answers from one hour until another that others are compared with.

    Attributes:
        features: The full names of its features.
    """

    name: str
    from_at: dt.datetime
    to_at: dt.datetime
    features: tuple[str, ...]


@attrs.frozen(kw_only=True)
class DriftView:
    """The comparison of the logged answers of one feature with a reference.

    Attributes:
        from_at: The beginning of the first hour that was compared.
        to_at: The end of the last hour.
        rows: How many answers were compared.
        reference_rows: How many rows the reference has.
        is_compared: Whether there were enough rows to compare.
        severity: How bad it is; None if it is not beyond what chance and the thresholds allow.
        metrics: Metric to its value, its thresholds and its severity.
        at: When it was stored; None if it is not.
    """

    branch: str
    feature: str
    reference_kind: ReferenceKind = attrs.field(converter=ReferenceKind)
    reference: str
    from_at: dt.datetime
    to_at: dt.datetime
    rows: int
    reference_rows: int
    is_compared: bool
    severity: Severity | None = attrs.field(
        converter=attrs.converters.optional(Severity), default=None
    )
    metrics: Json
    at: dt.datetime | None = None
