"""The loop of every child of the supervisor: it runs the jobs that the supervisor assigns.

`lease_inbox` is the child's end of its pipes: assignments and leases arrive, reports leave, and
work stops when the leases expire. `loop` starts and stops jobs until those that run are those that
are assigned. `job_carrier` is the protocol of the part that differs between children: how jobs are
carried out. `progress` decides when a job has caught up.
"""

from narthex_spark_apps.supervision.child.job_carrier import Carrier, Ended, Run, attempt
from narthex_spark_apps.supervision.child.lease_inbox import Inbox, send
from narthex_spark_apps.supervision.child.loop import JobLoop, serve
from narthex_spark_apps.supervision.child.progress import EndOffsets, Progress, describe_error

__all__ = [
    "Carrier",
    "EndOffsets",
    "Ended",
    "JobLoop",
    "Inbox",
    "Progress",
    "Run",
    "attempt",
    "describe_error",
    "send",
    "serve",
]
