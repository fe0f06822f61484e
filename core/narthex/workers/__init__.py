"""Authors' code, run in processes that can do nothing but compute.

`narthex.workers.in_process` runs it where it is called: in authors' own unit tests.
"""

from narthex.workers.arrow_cells import array_of, arrow_type, cells_of
from narthex.workers.calls import CodeCalls
from narthex.workers.pool import Limits, WorkerPool
from narthex.workers.process import Sandbox

__all__ = [
    "CodeCalls",
    "InProcessCalls",
    "Limits",
    "Sandbox",
    "WorkerPool",
    "arrow_type",
    "array_of",
    "cells_of",
]
