"""Bounds in authors' code: `@meta(alerts=[Freshness("10m"), QuarantineRate(0.01)])`.

These functions make records of `narthex._ir.alerts`, as those of windows do.
"""

from typing import Final

from narthex._authoring.durations import read_duration
from narthex._authoring.source_locations import author_origin
from narthex._ir import alerts
from narthex.errors import MetaInvalid

_SEVERITIES: Final = {severity.value: severity for severity in alerts.AlertSeverity}


def Freshness(  # noqa: N802 (named as the record)
    max_age: str, *, severity: str = "warning"
) -> alerts.Freshness:
    """Bound the age of a dataset's newest row, by event time.

    Args:
        max_age: The greatest age, such as `"10m"`.
        severity: `"critical"`, `"warning"` or `"info"`.

    Raises:
        DurationInvalid: `max_age` is not a duration.
        MetaInvalid: It is not positive, or the severity is none of these.
    """
    return alerts.Freshness(
        max_age_us=_positive(max_age, "`max_age` of `Freshness`"),
        severity=_severity(severity, "Freshness"),
    )


def QuarantineRate(  # noqa: N802 (named as the record)
    max_rate: float, *, window: str = "1h", severity: str = "warning"
) -> alerts.QuarantineRate:
    """Bound the share of a dataset's rows that are quarantined.

    Args:
        max_rate: The greatest share, from 0 to 1, of all rows that arrived in the window.
        window: The length of the window, which ends now.
        severity: `"critical"`, `"warning"` or `"info"`.

    Raises:
        DurationInvalid: `window` is not a duration.
        MetaInvalid: `max_rate` is not a share, `window` is not positive, or the severity is none
            of these.
    """
    rate: object = max_rate
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise MetaInvalid(
            f"`max_rate` of `QuarantineRate` is `{max_rate!r}`",
            origin=author_origin(),
            hint="write a share from 0 to less than 1, such as `0.01` for one row in a hundred",
        )
    return alerts.QuarantineRate(
        max_rate=float(rate),
        window_us=_positive(window, "`window` of `QuarantineRate`"),
        severity=_severity(severity, "QuarantineRate"),
    )


def _positive(duration: object, what: str) -> int:
    found = read_duration(duration, origin=author_origin(), what=what)
    if found <= 0:
        raise MetaInvalid(
            f"{what} is `{duration}`",
            origin=author_origin(),
            hint="write a duration above zero, such as `10m`",
        )
    return found


def _severity(severity: object, bound: str) -> alerts.AlertSeverity:
    found = _SEVERITIES.get(severity) if isinstance(severity, str) else None
    if found is None:
        raise MetaInvalid(
            f"`severity` of `{bound}` is `{severity!r}`",
            origin=author_origin(),
            hint="write `critical`, `warning` or `info`",
        )
    return found
