"""Authors' code, run in processes that can do nothing but compute.

`narthex.workers.in_process` runs it where it is called: in authors' own unit tests.
"""

from narthex.workers.arrow_cells import array_of, arrow_type, cells_of
from narthex.workers.calls import Callers, CodeCalls
from narthex.workers.keeping import Limits
from narthex.workers.pool import Compartments, WorkerPool
from narthex.workers.process import Sandbox, SandboxIncompleteError

__all__ = [
    "Callers",
    "CodeCalls",
    "Compartments",
    "InProcessCalls",
    "Limits",
    "Sandbox",
    "SandboxIncompleteError",
    "WorkerPool",
    "arrow_type",
    "array_of",
    "cells_of",
]
