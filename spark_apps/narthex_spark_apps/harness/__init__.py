"""The loop of every child of the supervisor: it runs the jobs that the supervisor assigns.

`lease_inbox` is the child's end of its pipes: assignments and leases arrive, reports leave, and
work stops when the leases expire. `loop` starts and stops jobs until those that run are those that
are assigned. `job_carrier` is the protocol of the part that differs between children: how jobs are
carried out. `progress` decides when a job has caught up.
"""

from narthex_spark_apps.harness.job_carrier import Carrier, Ended, Run, attempt
from narthex_spark_apps.harness.lease_inbox import Inbox, send
from narthex_spark_apps.harness.loop import Harness, serve
from narthex_spark_apps.harness.progress import EndOffsets, Progress, describe_error

__all__ = [
    "Carrier",
    "EndOffsets",
    "Ended",
    "Harness",
    "Inbox",
    "Progress",
    "Run",
    "attempt",
    "describe_error",
    "send",
    "serve",
]
