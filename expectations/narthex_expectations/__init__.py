"""Expectations: promises about rows, held against them by Great Expectations."""

from narthex_expectations.audits import AuditResult, Finding, audit, hold, newest_hour
from narthex_expectations.frames import frame, rows_between
from narthex_expectations.suites import (
    KINDS,
    UnknownExpectationError,
    compile_suite,
    suite_json,
)

__all__ = [
    "KINDS",
    "AuditResult",
    "Finding",
    "UnknownExpectationError",
    "audit",
    "compile_suite",
    "frame",
    "hold",
    "newest_hour",
    "rows_between",
    "suite_json",
]
