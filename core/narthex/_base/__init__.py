"""The base of all other parts: records, their plain form and canonical bytes, times, origins,
atomic writes of files, retries, sizes.

Start with `records`. These modules do not import any other part of `narthex`.
"""

from narthex._base.atomic_write import atomic_create, atomic_write, sync_path
from narthex._base.backoff import Backoff, Restarts
from narthex._base.canonical import NotCanonicalError, encode
from narthex._base.file_paths import meets
from narthex._base.json_depth import GREATEST_DEPTH, is_deeper
from narthex._base.origin import NOWHERE, Origin
from narthex._base.overwritten_packages import OverwrittenPackageError, require_whole_pyspark
from narthex._base.private_directories import make_private, who_may_enter
from narthex._base.records import (
    DESCRIPTION,
    Json,
    UnknownRecordError,
    from_plain,
    record,
    to_plain,
)
from narthex._base.sizes import render_size
from narthex._base.times import (
    DAY_US,
    FIRST_INSTANT,
    HOUR_US,
    LAST_INSTANT,
    MINUTE_US,
    SECOND_US,
    from_micros,
    parse_duration,
    render_instant,
    to_micros,
)
from narthex._base.trace_context import (
    TRACEPARENT,
    current_traceparent,
    loaded_tracing,
    trace_headers,
)

__all__ = [
    "DAY_US",
    "DESCRIPTION",
    "FIRST_INSTANT",
    "GREATEST_DEPTH",
    "HOUR_US",
    "LAST_INSTANT",
    "MINUTE_US",
    "NOWHERE",
    "SECOND_US",
    "TRACEPARENT",
    "Backoff",
    "Json",
    "NotCanonicalError",
    "Origin",
    "OverwrittenPackageError",
    "Restarts",
    "UnknownRecordError",
    "atomic_create",
    "atomic_write",
    "current_traceparent",
    "make_private",
    "who_may_enter",
    "encode",
    "from_micros",
    "from_plain",
    "is_deeper",
    "loaded_tracing",
    "meets",
    "parse_duration",
    "record",
    "render_instant",
    "render_size",
    "require_whole_pyspark",
    "sync_path",
    "to_micros",
    "to_plain",
    "trace_headers",
]
