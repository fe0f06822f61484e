"""The loop of every child of the supervisor: it alone decides which jobs run, and under what epoch.

`channel` is the child's end of its pipes: assignments and leases arrive, reports leave. `loop`
reconciles the jobs that run with those that are assigned. `carrier` is the protocol of the part
that differs between children: how jobs are carried out. `progress` decides when a job has caught
up.
"""

from narthex_spark_apps.harness.carrier import Carrier, Ended, Run, attempt
from narthex_spark_apps.harness.channel import Inbox, send
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
