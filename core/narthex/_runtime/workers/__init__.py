"""Run author code in processes that can only compute.

`narthex._testing.in_process` runs it in the calling process, in authors' unit tests.
"""

from narthex._runtime.workers.calls import Callers, CodeCalls, RowResults
from narthex._runtime.workers.lookups import Find
from narthex._runtime.workers.pool import Compartments, WorkerPool
from narthex._runtime.workers.process import Sandbox, SandboxIncompleteError
from narthex._runtime.workers.process_pool import Limits

__all__ = [
    "Callers",
    "CodeCalls",
    "Find",
    "RowResults",
    "Compartments",
    "Limits",
    "Sandbox",
    "SandboxIncompleteError",
    "WorkerPool",
]
