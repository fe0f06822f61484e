"""The loop of every runner: it runs the jobs that the supervisor assigns.

`lease_inbox` is the runner's end of its connection: assignments and leases arrive, and work stops
when the leases expire. `loop` starts and stops jobs until those that run are those that are
assigned. `job_carrier` is the protocol of the part that differs between runners: how jobs are
carried out. `progress` decides when a job has caught up. `process_runner` and `task_runner` connect
a loop to what supervises it: over the pipes of a process, or from within a task of Spark.
"""

from narthex_spark_apps.supervision.runner.job_carrier import Carrier, Ended, Run, attempt
from narthex_spark_apps.supervision.runner.lease_inbox import Inbox
from narthex_spark_apps.supervision.runner.loop import JobLoop
from narthex_spark_apps.supervision.runner.progress import EndOffsets, Progress, describe_error

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
]
